package event

import "encoding/json"

// libraryKey is the key of metadata under which a worker names the files of a chart's library.
const libraryKey = "turnstone_library"

// maxLibraryFiles bounds the files of one chart's library.
const maxLibraryFiles = 8

// LibraryFiles returns the files of the library that draws the chart of a type, in the order in which
// they are loaded, at most 8. They are local paths that the code of the session has chosen, so
// nobody may trust them. Without any the result is nil.
func (d Display) LibraryFiles(mime string) []string {
	var meta map[string]json.RawMessage
	var own struct {
		Files []string `json:"turnstone_library"` // libraryKey
	}
	if json.Unmarshal(d.Meta, &meta) != nil || json.Unmarshal(meta[mime], &own) != nil || len(own.Files) > maxLibraryFiles {
		return nil
	}
	return own.Files
}

// PortableMeta returns Meta without local paths, for files and clients on other machines. It is an
// object without fields if Meta is empty or not a JSON object.
func (d Display) PortableMeta() json.RawMessage {
	empty := json.RawMessage("{}")
	var meta map[string]json.RawMessage
	if json.Unmarshal(d.Meta, &meta) != nil || meta == nil {
		return empty
	}
	changed := false
	for mime, one := range meta {
		var fields map[string]json.RawMessage
		if json.Unmarshal(one, &fields) != nil || fields[libraryKey] == nil {
			continue
		}
		changed = true
		if delete(fields, libraryKey); len(fields) == 0 {
			delete(meta, mime)
			continue
		}
		meta[mime] = encodeFields(fields)
	}
	if !changed {
		return json.RawMessage(d.Meta)
	}
	return encodeFields(meta)
}

// encodeFields encodes fields that were decoded before, which cannot fail.
func encodeFields(fields map[string]json.RawMessage) json.RawMessage {
	data, err := json.Marshal(fields)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}
