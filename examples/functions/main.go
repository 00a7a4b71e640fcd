// Command functions gives code in a session two functions of this program: a query of its data, and
// a question to a language model. The code asks the model about each row in a loop, and the reply
// has only what the code prints. If a model writes the code, the model thereby calls itself.
//
//	MODEL_URL=http://localhost:11434/v1/chat/completions go run ./examples/functions python 'CODE'
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

type sighting struct{ Species, Place string }

var sightings = []sighting{{"turnstone", "harbour"}, {"knot", "harbour"}, {"spoonbill", "marsh"}, {"purple sandpiper", "harbour"}}

type queryParams struct {
	Place string `json:"place,omitempty" doc:"only sightings at this place"`
}

func querySightings(_ context.Context, q queryParams) (rows []sighting, err error) {
	for _, row := range sightings {
		if q.Place == "" || row.Place == q.Place {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

type question struct {
	Question string `json:"question"`
	Text     string `json:"text,omitempty" doc:"what the question is about"`
}

// newModelFunction returns a function that asks a server with the usual chat completion
// protocol.
func newModelFunction(url string) func(context.Context, question) (string, error) {
	return func(ctx context.Context, q question) (string, error) {
		message := map[string]string{"role": "user", "content": q.Question + "\n\n" + q.Text}
		body, _ := json.Marshal(map[string]any{"model": "default", "messages": []any{message}})
		request, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request) // an interrupt of the code ends ctx, and with it the request
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if json.NewDecoder(response.Body).Decode(&answer) != nil || len(answer.Choices) == 0 {
			return "", &supervisor.CallError{Name: "ConnectionError", Message: "the model does not answer: " + response.Status}
		}
		return answer.Choices[0].Message.Content, nil
	}
}

func runCode(ctx context.Context, spec workers.Spec, code, modelURL string) (string, error) {
	sup, err := supervisor.New(&supervisor.Options{Functions: []supervisor.Function{
		supervisor.FunctionOf("query", "Returns sightings of birds.", querySightings),
		supervisor.FunctionOf("ask_model", "Asks a language model one question.", newModelFunction(modelURL)),
	}})
	if err != nil {
		return "", err
	}
	defer sup.Close()
	session, err := sup.Open(ctx, "main", spec)
	if err != nil {
		return "", err
	}
	turn, err := session.Submit(ctx, code)
	if err != nil {
		return "", err
	}
	reply, err := session.Wait(ctx, turn, nil)
	return reply.Text(), err
}

func main() {
	supervisor.MonitorMain()
	spec := map[string]workers.Spec{"python": python.Spec(python.Options{}), "r": r.Spec(r.Options{})}[os.Args[1]]
	text, err := runCode(context.Background(), spec, os.Args[2], os.Getenv("MODEL_URL"))
	fmt.Print(text)
	if err != nil {
		log.Fatal(err)
	}
}
