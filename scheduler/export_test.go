package scheduler

// Remembered counts the workers that the core knows, and the alerts that it has given.
func (c *Core) Remembered() (workers, alerts int) { return len(c.workers), len(c.alerted) }
