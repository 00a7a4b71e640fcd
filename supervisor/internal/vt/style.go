package vt

// runStyle applies the numbers of SGR. Only what decides the color behind the text is kept.
func (s *Emulator) runStyle(b []byte) {
	c := &s.parser.control
	c.parse(b, 'm')
	for i := 0; i < c.count; {
		switch n := c.numbers[i]; {
		case n == 0:
			s.ink, s.back, s.reverse = paperDefault, paperDefault, false
		case n == 7:
			s.reverse = true
		case n == 27:
			s.reverse = false
		case n >= 30 && n <= 37:
			s.ink = paperIndex + paper(n-30)
		case n == 39:
			s.ink = paperDefault
		case n >= 40 && n <= 47:
			s.back = paperIndex + paper(n-40)
		case n == 49:
			s.back = paperDefault
		case n >= 90 && n <= 97:
			s.ink = paperIndex + paper(n-90+8)
		case n >= 100 && n <= 107:
			s.back = paperIndex + paper(n-100+8)
		case n == 38 || n == 48 || n == 58: // 58 is the color of underlines
			color, ok, next := parseColor(c, i)
			if ok && n == 38 {
				s.ink = color
			} else if ok && n == 48 {
				s.back = color
			}
			i = next
			continue
		}
		for i++; i < c.count && c.follows[i]; i++ { // details, such as the form of an underline
		}
	}
	s.setPaper()
}

// parseColor reads the color whose kind is after the number at i: 5 and an index, or 2 and red, green
// and blue. Between colons an unused number may come before the red. next is the number after it.
func parseColor(c *controlSequence, i int) (color paper, ok bool, next int) {
	kind := i + 1
	if kind >= c.count {
		return 0, false, kind
	}
	values := kind + 1
	next = values
	if c.follows[kind] {
		for next < c.count && c.follows[next] {
			next++
		}
		if c.numbers[kind] == 2 && next-values > 3 {
			values++
		}
	} else if c.numbers[kind] == 5 {
		next = min(c.count, values+1)
	} else if c.numbers[kind] == 2 {
		next = min(c.count, values+3)
	}
	at := func(k int) paper { return paper(min(255, c.numbers[values+k])) }
	switch {
	case c.numbers[kind] == 5 && next-values >= 1:
		return paperIndex + at(0), true, next
	case c.numbers[kind] == 2 && next-values >= 3:
		return paperRGB + at(0)<<16 + at(1)<<8 + at(2), true, next
	}
	return 0, false, next
}

// setPaper computes the color behind the next character.
func (s *Emulator) setPaper() {
	switch {
	case !s.reverse:
		s.paper = s.back
	case s.ink == paperDefault:
		s.paper = paperReverse | paperInk
	default:
		s.paper = paperReverse | s.ink
	}
}
