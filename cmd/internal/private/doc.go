// Package private keeps files for the user of this process alone. Others are all
// but that user, and on Windows also but the system and its administrators, whom
// no access list keeps out. Nothing here starts a goroutine.
package private
