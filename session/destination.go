package session

import "time"

// Destination is what a session with a sandbox has had to do with one place in the network.
type Destination struct {
	Address     string    `json:"place"` // "example.org:443"
	Connections int       `json:"connections"`
	Sent        int64     `json:"sent"` // bytes; those of a connection that lasts are counted by the megabyte
	Received    int64     `json:"received"`
	Refused     int       `json:"refused,omitempty"` // how often it was not let through
	Last        time.Time `json:"last"`
}
