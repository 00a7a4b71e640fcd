package event

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestDisplay(t *testing.T) {
	t.Run("survives a JSON round trip", func(t *testing.T) {
		for _, b := range []Body{
			Display{Data: map[string][]byte{"text/html": []byte("<b>"), "image/png": {0x89, 0xff}, "application/json": []byte(`{"a":[1]}`), "x/empty": {}}, Meta: []byte(`{"a":{}}`), ID: "i", Update: true, Result: true, Title: "t", Omitted: map[string]Blob{"a/b": {Bytes: 5, Digest: "d"}}},
			Display{}, OutputCleared{true}, OutputCleared{}, FullScreenChanged{true}, FullScreenChanged{}, InputRequestEnded{7},
			Text{Kind: TextResult, Data: []byte("1")}, Text{Stream: Stderr, Kind: TextTraceback, Data: []byte{0xff}},
		} {
			text, err := json.Marshal(Event{Seq: 1, Silent: true, Body: b})
			if err != nil {
				t.Fatal(err)
			}
			var again Event
			if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again.Body, b) || !again.Silent {
				t.Errorf("%s: got %+v, %v", text, again, err)
			}
		}
		if text, err := json.Marshal(Event{Body: Display{Meta: []byte("{broken")}}); err != nil {
			t.Errorf("metadata that is not JSON: %s, %v", text, err)
		}
	})

	t.Run("truncation drops the largest type first and text last", func(t *testing.T) {
		d := Display{Data: map[string][]byte{"text/plain": make([]byte, 50), "text/html": make([]byte, 30), "image/png": make([]byte, 10)}}
		for most, want := range map[int64]map[string]Blob{
			90: nil, 89: {"text/html": {Bytes: 30}}, 60: {"text/html": {Bytes: 30}}, 59: {"text/html": {Bytes: 30}, "image/png": {Bytes: 10}},
			0: {"text/html": {Bytes: 30}, "image/png": {Bytes: 10}, "text/plain": {Bytes: 50}},
		} {
			got := d.TruncateTo(most)
			if got.TotalBytes() > most || !reflect.DeepEqual(got.Omitted, want) || len(got.Data)+len(want) != 3 {
				t.Errorf("%d: left out %v", most, got.Omitted)
			}
		}
		if d.TotalBytes() != 90 || d.Omitted != nil {
			t.Error("the original display was changed")
		}
	})

	t.Run("a table or a widget leaves the text as it was", func(t *testing.T) {
		table := []byte(`{"v":1}`)
		for _, d := range []Display{
			{Data: map[string][]byte{"text/html": []byte("<p>")}},
			{Data: map[string][]byte{"text/html": []byte("<p>"), "text/plain": []byte("a 1")}},
			{Data: map[string][]byte{"text/html": []byte("<p>"), "text/plain": []byte("a 1")}, Result: true},
			{Data: map[string][]byte{"text/html": []byte("<p>")}, Title: "DataFrame", Result: true},
		} {
			want, label := d.Text(), d.labelText()
			d.Data[MIMETable], d.Data[MIMEWidget] = table, []byte(`{"model_id":"1"}`)
			if got := d.Text(); got != want || d.labelText() != label {
				t.Errorf("got %q, %q, want %q, %q", got, d.labelText(), want, label)
			}
		}
	})
}
