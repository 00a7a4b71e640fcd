package workers

// A Candidate is one place where a runtime was looked for.
type Candidate struct {
	Source    string // how it was found: "VIRTUAL_ENV", ".venv in /src/app", "R on PATH"
	Path      string // the executable; "" when Source led to none
	Version   string // of the runtime, read from the files around Path; "" when unknown
	Chosen    bool   // the search ended here
	Note      string // why it was passed over; "" when Taken
	Requested bool   // the user asked for it, and learns if it is passed over
}
