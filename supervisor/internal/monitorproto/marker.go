package monitorproto

import "math"

// MarkerTitlePrefix returns the prefix of the titles that one worker's monitor sets as markers in
// the output of a pseudo console.
func MarkerTitlePrefix(tag string) string { return "turnstone " + tag + " " }

// EndMarker is the marker after everything that a worker has written.
const EndMarker = math.MaxUint64
