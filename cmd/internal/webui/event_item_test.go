package webui

import (
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestEventItem(t *testing.T) {
	t.Parallel()

	t.Run("shows a widget as its text", func(t *testing.T) {
		t.Parallel()
		d := timeline.Display{Data: map[string][]byte{"text/plain": []byte("IntSlider(value=3)"), timeline.MIMEWidget: []byte(`{"model_id":"1"}`)}}
		i := newEventItem("main", timeline.Event{Seq: 1, Turn: 1, Body: d})
		if len(i.Parts) != 1 || i.Parts[0].Text != "IntSlider(value=3)" {
			t.Errorf("the parts are %+v", i.Parts)
		}
	})
}
