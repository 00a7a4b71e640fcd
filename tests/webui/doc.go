// Package page tries the page of repl view in a real browser, Chromium, with a real daemon and
// real sessions. TURNSTONE_TEST_SHOTS=DIR keeps pictures of it.
package webui
