// Package webui serves a web UI for the sessions of a daemon. It is a client of the daemon like any
// other. When it ends, the sessions continue.
//
//	s, err := webui.Listen(ctx, &webui.Options{Link: link, Author: "ada"})
//	fmt.Println(s.NewLoginLink("main")) // valid once, for a minute
//	err = s.Serve(ctx)
//
// # Authentication
//
// The server has its own host name, <random>.localhost, because browsers send the cookies of a host
// to all its ports. A login link admits one browser, once. Each request must name exactly our host,
// come from our own page according to Origin and Sec-Fetch-Site, and carry the cookie. Each API
// call also needs the token of the browser session.
//
// # Results of code
//
// Text is inserted as text, never as HTML. HTML and SVG of results are separate documents, in
// frames without scripts. The user may allow the scripts of one result. Its frame then has no
// origin, and a policy that loads nothing. But no policy covers WebRTC or the connections that a
// link element requests in advance, so such a result can reach the network.
//
// Charts are data that a library draws. The library is the one in the session's own package, if its
// file is a published build. Vega is part of the program. In the frame of a chart, only its library and
// our draw.js run.
//
// # Goroutines
//
// Each connection has one goroutine of net/http, and one more while it reads the stream of ticks.
// All end when Serve does, or half a second later.
package webui
