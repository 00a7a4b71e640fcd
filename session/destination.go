package session

import "time"

// Destination counts the connections of a session with a sandbox to one host and port.
type Destination struct {
	Address     string    `json:"address"` // "example.org:443"
	Connections int       `json:"connections"`
	Sent        int64     `json:"sent"` // bytes; an open connection is counted by the megabyte
	Received    int64     `json:"received"`
	Refused     int       `json:"refused,omitempty"` // number of refused connections
	Last        time.Time `json:"last"`
}
