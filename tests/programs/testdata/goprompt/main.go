// Command goprompt asks with one program of charmbracelet, and prints the answer.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/huh"
)

// question is a bubbletea program with one text field.
type question struct{ field textinput.Model }

func (q question) Init() tea.Cmd { return textinput.Blink }

func (q question) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	if key, ok := m.(tea.KeyMsg); ok && key.Type == tea.KeyEnter {
		return q, tea.Quit
	}
	var cmd tea.Cmd
	q.field, cmd = q.field.Update(m)
	return q, cmd
}

func (q question) View() string { return "Name? " + q.field.View() + "\n" }

// work is a bubbletea program that draws its progress and wants no key.
type work int

type tick struct{}

func next() tea.Cmd { return tea.Tick(50*time.Millisecond, func(time.Time) tea.Msg { return tick{} }) }

func (w work) Init() tea.Cmd { return next() }

func (w work) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := m.(tick); !ok {
		return w, nil
	}
	if w++; w == 40 {
		return w, tea.Quit
	}
	return w, next()
}

func (w work) View() string { return fmt.Sprintf("step %d\n", int(w)) }

func main() {
	var answer string
	var err error
	switch os.Args[1] {
	case "huh-input":
		err = huh.NewInput().Title("Name?").Value(&answer).Run()
	case "huh-select":
		err = huh.NewSelect[string]().Title("Colour?").Options(huh.NewOptions("red", "green", "blue")...).Value(&answer).Run()
	case "bubbletea":
		field := textinput.New()
		field.Focus()
		var m tea.Model
		if m, err = tea.NewProgram(question{field}).Run(); err == nil {
			answer = m.(question).field.Value()
		}
	case "bubbletea-work":
		_, err = tea.NewProgram(work(0)).Run()
		answer = "done"
	}
	fmt.Println("answer:", answer, err)
}
