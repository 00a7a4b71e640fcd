package clientprofile

import "encoding/json"

// geminiEndMarker is appended to a text so that it is not valid JSON.
const geminiEndMarker = "\n[end]"

// ProtectText returns the first text of a result so that the Gemini CLI shows it to its model. If
// the first text is valid JSON, the CLI also takes it for structured content, and rejects anything
// but an object. Results such as 2, [1, 2] or null, which are usual in a REPL, become errors. This
// was measured on 0.61; see docs/agents.md. Other clients get the text unchanged.
func (p Profile) ProtectText(text string) string {
	if p.parsesText && json.Valid([]byte(text)) {
		text += geminiEndMarker
	}
	return text
}
