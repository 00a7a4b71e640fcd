package workers

// A Candidate is a location that was searched for a runtime.
type Candidate struct {
	Source    string // how it was found: "VIRTUAL_ENV", ".venv in /src/app", "R on PATH"
	Path      string // the executable; "" when Source led to none
	Version   string // of the runtime, read from the files around Path; "" when unknown
	Chosen    bool   // it was chosen, which ended the search
	Note      string // why it was not chosen; "" when Chosen
	Requested bool   // the user requested it; a notice says if it is not chosen
}
