// Command goprompt asks with one program of charmbracelet, and prints the answer.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/charmbracelet/bubbles/spinner"
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

// work is a bubbletea program that draws a spinner for some seconds, and wants no key.
type work struct{ spinner spinner.Model }

func (w work) Init() tea.Cmd {
	return tea.Batch(w.spinner.Tick, tea.Tick(2500*time.Millisecond, func(time.Time) tea.Msg { return tea.Quit() }))
}

func (w work) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	w.spinner, cmd = w.spinner.Update(m)
	return w, cmd
}

func (w work) View() string { return w.spinner.View() + " working\n" }

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
		_, err = tea.NewProgram(work{spinner.New(spinner.WithSpinner(spinner.Dot))}).Run()
		answer = "done"
	}
	fmt.Println("answer:", answer, err)
}
