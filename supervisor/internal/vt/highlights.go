package vt

import "strings"

// maxHighlights bounds the highlights of a picture.
const maxHighlights = 16

// A HighlightedText is text on another background than the text around it, such as the chosen entry of a menu.
type HighlightedText struct {
	Row, Col int // of its first character, from 0
	Text     string
}

// A run is a part of a row with one background, without the blanks at its ends.
type run struct {
	row, begin, end int
	paper           paper
}

// findHighlights returns the texts that a person sees as chosen: reversed texts. If there are none, it
// returns texts on another background than the rows above and below. If there are none either, it
// returns texts on another background than most of the screen. Backgrounds that fill more than a
// quarter of the screen are a design and choose nothing.
func (s *Emulator) findHighlights() []HighlightedText {
	if found := s.highlightedTexts(func(r run) bool { return r.paper&paperReverse != 0 }, s.rows*s.columns); len(found) > 0 {
		return found
	}
	quarter := s.rows * s.columns / 4
	if found := s.highlightedTexts(s.standsAlone, quarter); len(found) > 0 {
		return found
	}
	frequent, others := s.frequentPaper()
	if others > quarter {
		return nil
	}
	return s.highlightedTexts(func(r run) bool { return r.paper != frequent }, quarter)
}

// standsAlone reports whether the rows above and below have other backgrounds at both ends of a run.
func (s *Emulator) standsAlone(r run) bool {
	for _, row := range []int{r.row - 1, r.row + 1} {
		if row < 0 || row >= s.rows {
			continue
		}
		if cells := s.lines[row].cells; cells[r.begin].paper == r.paper || cells[r.end-1].paper == r.paper {
			return false
		}
	}
	return true
}

// frequentPaper returns the background of most cells, and how many cells have another one.
func (s *Emulator) frequentPaper() (frequent paper, others int) {
	counts := make(map[paper]int)
	for _, l := range s.lines {
		for i := 0; i < s.columns; {
			end := paperEnd(l.cells, i)
			counts[l.cells[i].paper] += end - i
			i = end
		}
	}
	most := 0
	for p, n := range counts {
		if n > most || n == most && p < frequent {
			frequent, most = p, n
		}
	}
	return frequent, s.rows*s.columns - most
}

// paperEnd returns the end of the cells from begin on that have one background.
func paperEnd(cells []cell, begin int) int {
	end := begin + 1
	for end < len(cells) && cells[end].paper == cells[begin].paper {
		end++
	}
	return end
}

// highlightedTexts returns the first texts that stand out, from the top. It returns none if the runs that stand
// out have more than maxCells cells.
func (s *Emulator) highlightedTexts(standsOut func(run) bool, maxCells int) []HighlightedText {
	var found []HighlightedText
	cells := 0
	for row, l := range s.lines {
		for next := 0; next < s.columns; {
			r := run{row: row, begin: next, paper: l.cells[next].paper}
			next = paperEnd(l.cells, next)
			r.end = next
			if !hasText(l.cells[r.begin:r.end]) || !standsOut(r) {
				continue
			}
			if cells += r.end - r.begin; cells > maxCells {
				return nil
			}
			if len(found) == maxHighlights {
				continue
			}
			for l.cells[r.begin].isBlank() {
				r.begin++
			}
			text := s.appendText(nil, l.cells[r.begin:r.end])
			found = append(found, HighlightedText{Row: row, Col: r.begin, Text: strings.TrimRight(string(text), " ")})
		}
	}
	return found
}

func (c cell) isBlank() bool { return c.char == charBlank || c.char == charPadding || c.char == ' ' }

// hasText reports whether cells show more than blanks, frames and blocks of color.
func hasText(cells []cell) bool {
	for _, c := range cells {
		isFrame := c.char >= 0x2500 && c.char < 0x25a0
		if !c.isBlank() && !isFrame && c.char != charTail {
			return true
		}
	}
	return false
}
