package peer

// Question is the type of the control line that asks for a proof.
const Question = "prove"

// A Proof is the answer of a daemon that asserts the identity of its user.
type Proof struct {
	MAC     string `json:"mac"`     // hexadecimal
	Address string `json:"address"` // where the daemon listens
	Client  string `json:"client"`  // the process that asks, by its processName
}

// Fields returns the fields of the answer.
func (p Proof) Fields() map[string]any {
	return map[string]any{"mac": p.MAC, "address": p.Address, "client": p.Client}
}
