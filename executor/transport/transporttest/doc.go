// Package transporttest is the suite that every transport passes: what package transport promises, said as
// tests. A transport's test calls
//
//	transporttest.Run(t, transporttest.Suite{
//		New:  func(t testing.TB) transport.Transport { return transport.NewMemory() },
//		Addr: func(t testing.TB) string { return "memory://*" },
//	})
//
// Each part makes transports of its own, closes them and looks for goroutines that are left. With Child set,
// the parts that kill a process run too: the child is the test's own binary, started again, and its TestMain
// calls Child's Main.
//
// Of a lossy transport the suite asks less: what arrives is whole, in order and once.
package transporttest
