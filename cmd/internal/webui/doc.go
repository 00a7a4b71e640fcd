// Package page serves the sessions of a daemon to a person's browser. It is a client of the
// daemon like any other: when it ends, nothing else does.
//
//	s, err := page.Listen(ctx, &page.Options{Link: link, Author: "ada"})
//	fmt.Println(s.NewLink("main")) // good once, for a minute
//	err = s.Serve(ctx)
//
// # Who is let in
//
// The server has a host name of its own, <random>.localhost, because browsers send the cookies
// of a host to every port of it. A link lets a browser in once. Each request must name exactly
// our host, come from our own page as far as Origin and Sec-Fetch-Site tell, and have the
// cookie; each call of the API needs the token of the visit as well.
//
// # Results of code
//
// The page puts text into the document as text, never as HTML. HTML and SVG of results are
// documents of their own, in frames without scripts. A person may let the scripts of one result
// run: its frame then has no origin, and a policy that loads nothing; WebRTC and the connections
// that a link element asks for ahead are covered by no policy, so such a result can reach the network.
//
// # Goroutines
//
// Each connection has one, of net/http's, and one more while it has the stream of ticks. All end
// when Serve does, or half a second later.
package webui
