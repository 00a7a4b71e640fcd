package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// A program that uses the user's daemon creates a session, or finds it as it was left.
func Example() {
	ctx := context.Background()
	link := client.New(client.Socket(client.DefaultSocket(os.Getenv)), nil)
	defer link.Close()
	s, now, made, err := link.OpenSession(ctx, protocol.CreateParams{Name: "main", Language: "python"})
	if err != nil {
		log.Fatal(err)
	}
	if !made {
		fmt.Println("it is there, and", now.State)
	}
	turn, err := s.Submit(ctx, "6 * 7")
	if err != nil {
		log.Fatal(err)
	}
	reply, err := s.Wait(ctx, turn, session.WaitAtMost(45*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text())
}
