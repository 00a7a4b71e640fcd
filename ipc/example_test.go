package ipc_test

import (
	"fmt"
	"log"
	"net"

	"github.com/turnstone-repl/turnstone/ipc"
)

// A supervisor starts a turn, and a worker reports its output and its end. Each has one end of the channel.
func ExampleConn() {
	channel, other := net.Pipe()
	worker := ipc.NewConn(other, ipc.FromSupervisor)
	go func() {
		defer worker.Close()
		m, err := worker.Receive()
		if start, ok := m.(ipc.TurnStart); err == nil && ok {
			_ = worker.Send(ipc.Output{Stream: ipc.Stdout, Data: []byte("ran " + string(start.Input))})
			_ = worker.Send(ipc.Idle{Turn: start.Turn, Outcome: ipc.OutcomeOK})
		}
	}()

	supervisor := ipc.NewConn(channel, ipc.FromWorker)
	defer supervisor.Close()
	if err := supervisor.Send(ipc.TurnStart{Turn: 1, Input: []byte("1 + 1")}); err != nil {
		log.Fatal(err)
	}
	for {
		m, err := supervisor.Receive()
		if err != nil {
			log.Fatal(err)
		}
		switch m := m.(type) {
		case ipc.Output:
			fmt.Printf("%s\n", m.Data)
		case ipc.Idle:
			fmt.Println("turn", m.Turn, "ended:", m.Outcome)
			return
		}
	}
	// Output:
	// ran 1 + 1
	// turn 1 ended: ok
}
