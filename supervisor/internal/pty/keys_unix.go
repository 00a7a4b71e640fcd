//go:build linux || darwin

package pty

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// unpackPacket removes the header of a packet, and reports whether text is left. A packet without
// text means that something about the terminal has changed.
func (p *Master) unpackPacket(b []byte, n *int) bool {
	const text = 0 // TIOCPKT_DATA
	if b[0] == text {
		*n = copy(b, b[1:*n])
	} else {
		*n = 0
	}
	modes, err := p.currentModes()
	if err == nil {
		p.rawMode.Store(modes.Lflag&unix.ICANON == 0)
	}
	return *n > 0
}

func (p *Master) isRawMode() bool { return p.rawMode.Load() }

func (p *Master) hasForegroundJob() bool {
	group, err := p.ForegroundGroup()
	return err == nil && group > 0 && group != p.WorkerGroup
}

// ForegroundGroup returns the terminal's foreground process group.
func (p *Master) ForegroundGroup() (group int, err error) {
	err = p.withMasterFD(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group, err
}

// typeKeys does what the kernel leaves to this side under EXTPROC: it turns keys into signals, and
// carriage returns into newlines, and edits lines. If a program has switched EXTPROC off, the kernel
// does so. A line must be typed in one call to be edited.
func (p *Master) typeKeys(b []byte) error {
	modes, err := p.currentModes()
	if err != nil {
		return fmt.Errorf("pty: type keys: %w", err)
	}
	if modes.Lflag&unix.EXTPROC == 0 {
		return p.writeKeys(b)
	}
	typed := make([]byte, 0, len(b))
	for _, c := range b {
		if s := keySignal(modes, c); s != 0 {
			if err := p.writeKeys(typed); err != nil {
				return err
			}
			typed = typed[:0]
			if err := p.withMasterFD(func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSIG, int(s)) }); err != nil {
				return fmt.Errorf("pty: type keys: %w", err)
			}
			continue
		}
		if rest, edited := editLine(modes, typed, c); edited {
			typed = rest
			continue
		}
		switch {
		case c == '\r' && modes.Iflag&unix.IGNCR != 0:
			continue
		case c == '\r' && modes.Iflag&unix.ICRNL != 0:
			c = '\n'
		case c == '\n' && modes.Iflag&unix.INLCR != 0:
			c = '\r'
		}
		typed = append(typed, c)
	}
	return p.writeKeys(typed)
}

func (p *Master) readsKeys() bool {
	modes, err := p.currentModes()
	return err == nil && modes.Lflag&unix.ICANON == 0
}

// returnsOnNewline is true unless a program has switched the translation of newlines off. Without OPOST
// here, a program that makes the terminal raw switches off nothing: it is recognised by ISIG and IGNBRK,
// which cfmakeraw(3) and its copies clear. Each program that keeps one of the two was seen to need the
// return; see the recordings of package vt.
func (p *Master) returnsOnNewline() bool {
	modes, err := p.currentModes()
	return err != nil || modes.Oflag&unix.ONLCR != 0 && (modes.Lflag&unix.ISIG != 0 || modes.Iflag&unix.IGNBRK != 0)
}

func (p *Master) answerQuery(b []byte) int {
	if !p.readsKeys() {
		return 0
	}
	p.mayHaveInput.Store(true)
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	n := 0
	_ = p.withMasterFD(func(fd int) (err error) {
		n, err = unix.Write(fd, b) // the descriptor is nonblocking
		return err
	})
	return max(n, 0)
}

// editLine applies a key that edits the line which a program will read, as the end of typed. It reports
// whether the key is one, which it is not while a program reads single keys.
func editLine(modes *unix.Termios, typed []byte, key byte) (rest []byte, edited bool) {
	if modes.Lflag&unix.ICANON == 0 || key == 0 {
		return typed, false
	}
	begin := bytes.LastIndexByte(typed, '\n') + 1
	line := typed[begin:]
	switch key {
	case modes.Cc[unix.VERASE]:
		_, size := utf8.DecodeLastRune(line)
		return typed[:len(typed)-size], true
	case modes.Cc[unix.VKILL]:
		return typed[:begin], true
	case modes.Cc[unix.VWERASE]:
		line = bytes.TrimRight(line, " \t")
		return typed[:begin+bytes.LastIndexAny(line, " \t")+1], true
	}
	return typed, false
}

// keySignal returns the signal that a key stands for under these modes, or 0.
func keySignal(modes *unix.Termios, key byte) unix.Signal {
	if modes.Lflag&unix.ISIG == 0 || key == 0 || key == 0xff { // both are ways to write "no key"
		return 0
	}
	switch key {
	case modes.Cc[unix.VINTR]:
		return unix.SIGINT
	case modes.Cc[unix.VQUIT]:
		return unix.SIGQUIT
	case modes.Cc[unix.VSUSP]:
		return unix.SIGTSTP
	}
	return 0
}

// writeKeys writes keys as fast as they are read.
func (p *Master) writeKeys(b []byte) error {
	p.inputMu.Lock()
	round, ahead := p.restoreCount, p.bytesAhead
	p.inputMu.Unlock()
	p.mayHaveInput.Store(true)
	for len(b) > 0 {
		piece := b[:min(len(b), maxUnreadInput)]
		if ahead+len(piece) > maxUnreadInput && !p.awaitEmpty(round) {
			return fmt.Errorf("pty: type keys: %d bytes of keys lost: no program read any within %s", len(b), inputTimeout)
		}
		n, err := p.write(piece, round)
		if b, ahead = b[n:], n; err != nil && !(n > 0 && errors.Is(err, os.ErrDeadlineExceeded)) {
			return fmt.Errorf("pty: type keys: %d bytes of keys lost: %w", len(b), err)
		}
	}
	return nil
}
