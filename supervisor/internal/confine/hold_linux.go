package confine

import "slices"

// hold waits until a person has decided about a call. Equal calls are one question. There is one
// question at a time, so that a person sees one; the others wait for it. A signal ends the call
// for the kernel. If the program then makes it again, it joins the question that is still open.
func (b *Box) hold(n *notification, d Denial) {
	q := b.question(n, d)
	if q == nil {
		b.denied(d)
		return
	}
	<-q.done // a refusal is not told: whoever refused knows
}

// question returns the open question about a denial, or asks one. It returns nil if too many
// were asked.
func (b *Box) question(n *notification, d Denial) *question {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.open[d]; q != nil {
		q.waits = append(slices.DeleteFunc(q.waits, func(call uint64) bool { return !b.isHere(call) }), n.ID)
		return q
	}
	if b.asked >= maxAsked {
		return nil
	}
	b.asked++
	b.last++
	q := &question{id: b.last, waits: []uint64{n.ID}, done: make(chan struct{}), denial: d}
	q.denial.ID = q.id
	b.open[d] = q
	if len(b.open) == 1 {
		go b.tell(q.denial)
	}
	return q
}

// Permit ends a question. Its calls go on, and succeed if a grant came first.
func (b *Box) Permit(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, q := range b.open {
		if q.id == id {
			delete(b.open, d)
			close(q.done)
			b.askNext()
			return
		}
	}
}

// askNext asks the oldest open question whose program still waits; b.mu is held.
func (b *Box) askNext() {
	for len(b.open) > 0 {
		var oldest *question
		var of Denial
		for d, q := range b.open {
			if oldest == nil || q.id < oldest.id {
				oldest, of = q, d
			}
		}
		if slices.ContainsFunc(oldest.waits, b.isHere) {
			go b.tell(oldest.denial)
			return
		}
		delete(b.open, of)
		close(oldest.done)
	}
}
