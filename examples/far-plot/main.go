// Command far-plot sends data to a session on another machine, plots it there, and fetches the plot.
//
//	go run ./examples/far-plot data.csv plot.png /srv/birds ssh gpu1
//
// The directory is one on that machine, where the files stay, and the last words are a command that
// runs programs there. The machine needs repl, and a Python with matplotlib.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

const plotCode = `
import csv, matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
rows = [(row[0], float(row[1])) for row in csv.reader(open("data.csv"))]
plt.bar(*zip(*rows))
plt.savefig("plot.png")
plt.close()`

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: far-plot DATA PLOT DIRECTORY COMMAND...")
	}
	link := client.New(&remote.CommandDialer{Prefix: os.Args[4:], StartDaemon: true}, nil)
	defer link.Close()
	data, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer data.Close()
	plot, err := os.Create(os.Args[2])
	if err == nil {
		err = errors.Join(drawPlot(context.Background(), link, os.Args[3], data, plot), plot.Close())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// drawPlot uses a session of its own in dir.
func drawPlot(ctx context.Context, link *client.Client, dir string, data io.Reader, plot io.Writer) error {
	made, err := link.CreateSession(ctx, protocol.CreateParams{Language: "python", Dir: dir})
	if err != nil {
		return err
	}
	s := link.Session(made.Name)
	defer s.Close(context.WithoutCancel(ctx))
	if err := session.Put(ctx, s, "data.csv", data, &session.PutOptions{Overwrite: true}); err != nil {
		return err
	}
	result, err := session.Run(ctx, s, plotCode, nil)
	if err == nil {
		err = result.Err()
	}
	if err != nil {
		return err
	}
	return session.Get(ctx, s, "plot.png", plot)
}
