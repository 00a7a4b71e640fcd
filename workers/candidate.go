package workers

// A Candidate is one place where a runtime was looked for.
type Candidate struct {
	Source  string // what pointed there: "VIRTUAL_ENV", ".venv in /src/app", "R on PATH"
	Path    string // the executable; "" when Source led to none
	Version string // of the runtime, as far as the files around Path tell; "" when they do not
	Taken   bool   // the search ended here
	Note    string // why it was passed over; "" when Taken
	Asked   bool   // somebody asked for it: to pass it over is to be told
}
