// Package testmain provides the main function of test binaries. It runs a package's tests, or one
// of the programs that tests start by running the test binary again.
//
//	func TestMain(m *testing.M) {
//		testmain.Run(m, testmain.Options{
//			Monitor:  supervisor.MonitorMain,
//			Programs: []testmain.Program{fakeworker.Program, {Variable: relayEnv, Main: runRelay}},
//		})
//	}
//
// It knows neither these programs nor the tested package, and starts no goroutines.
package testmain
