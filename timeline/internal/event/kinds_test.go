package event

import (
	"testing"
)

func TestEventKinds(t *testing.T) {
	numbers, names := make(map[byte]string), make(map[string]bool)
	for _, k := range eventKinds {
		if other, ok := numbers[k.number]; ok && k.number != 0 {
			t.Errorf("%s and %s have the number %d", k.name, other, k.number)
		}
		if names[k.name] {
			t.Errorf("two kinds have the name %s", k.name)
		}
		numbers[k.number], names[k.name] = k.name, true
		if got := k.visit(nil, new(codec)).kind(); got != k {
			t.Errorf("the body of %s is of the kind %s", k.name, got.name)
		}
		new(eventJSON).withFields(k, nil) // panics at a name that is not in JSON
	}
	if len(names) != len(eventKinds) {
		t.Errorf("got %d kinds, want %d", len(names), len(eventKinds))
	}
}
