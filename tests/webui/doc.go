// Package webui tests the web UI of repl view in a real browser, Chromium, with a real daemon and
<<<<<<< HEAD
// real sessions. TURNSTONE_TEST_SHOTS=DIR saves screenshots of it.
=======
// real sessions. With TURNSTONE_TEST_SHOTS=DIR it saves screenshots there.
>>>>>>> 21103053 (clients, webui: words of the field)
package webui
