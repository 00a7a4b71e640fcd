package callerstate

// A slowFact is a fact that takes long to find, so never under a lock. A call that misses it under
// a lock gives up without an effect, and tries again once the fact is known.
type slowFact[T any] struct {
	find     func() T
	value    T
	isKnown  bool
	isMissed bool
}

// getIfKnown returns the fact, or records that it is missed and returns the zero value.
func (f *slowFact[T]) getIfKnown() (value T, known bool) {
	f.isMissed = !f.isKnown
	return f.value, f.isKnown
}

// findIfMissed finds the fact if it was missed, and reports whether it was.
func (f *slowFact[T]) findIfMissed() bool {
	if !f.isMissed {
		return false
	}
	f.value, f.isKnown, f.isMissed = f.find(), true, false
	return true
}
