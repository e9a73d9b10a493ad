/*
Package zktest runs a real ZooKeeper for tests, and puts a network in front of it that fails.

	func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) } // ends the shared server

	addr := zktest.Shared(t)   // one server for all tests of a package, each in a root of its own
	own := zktest.Start(t)     // a server for this test, which may be killed, restarted and paused
	own.Kill(); own.Restart()
	own.Pause(); own.Resume()
	p := zktest.NewProxy(t, own.Addr())
	p.Cut(); p.Heal()          // connections break and new ones are refused, until healed
	p.Freeze(); p.Heal()       // connections stay, and nothing passes
	lost := p.LoseAnswer(zktest.Multi, 2) // the second such request happens, and its answer never comes
	e := zktest.StartEnsemble(t) // three servers that agree
	leader, followers := e.Whole(t) // waits for all; Leader waits for a majority
	e.Members[leader].Kill()     // or Pause; the others elect another one
	e.Lag(followers[0], leader).Heal() // a follower serves for a second without what is stored meanwhile

The server is Debian's, on a free port of the loopback, with its data in a temporary folder. A tick is 100 ms, so
sessions of 200 ms and more are possible; they end within a tick after their timeout. The members of an
ensemble give each other up after a second of silence, and elect a leader in half a second. Servers end with the
test process, however it ends. Where Java or ZooKeeper is not installed the test fails and says what
to install.
*/
package zktest
