package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

// maxConnectionFile bounds a connection file, in bytes.
const maxConnectionFile = 64 << 10

// A Connection is the content of a connection file: the addresses of a kernel's sockets, and the key
// that signs its messages.
type Connection struct {
	Transport  string `json:"transport"` // "tcp" or "ipc"
	IP         string `json:"ip"`        // for ipc, the path of the sockets without "-" and the number
	Shell      int    `json:"shell_port"`
	IOPub      int    `json:"iopub_port"`
	Stdin      int    `json:"stdin_port"`
	Control    int    `json:"control_port"`
	Heartbeat  int    `json:"hb_port"`
	Key        string `json:"key"`
	Scheme     string `json:"signature_scheme"`
	KernelName string `json:"kernel_name"`
}

// ReadConnection reads a connection file and checks it.
func ReadConnection(path string) (Connection, error) {
	file, err := os.Open(path)
	if err != nil {
		return Connection{}, fmt.Errorf("reading the connection file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConnectionFile+1))
	if err != nil {
		return Connection{}, fmt.Errorf("reading the connection file: %w", err)
	}
	c, err := ParseConnection(text)
	if err != nil {
		return Connection{}, fmt.Errorf("connection file %s: %w", path, err)
	}
	return c, nil
}

// ParseConnection parses the text of a connection file and checks it.
func ParseConnection(text []byte) (Connection, error) {
	if len(text) > maxConnectionFile {
		return Connection{}, fmt.Errorf("larger than %d bytes", maxConnectionFile)
	}
	c := Connection{Transport: "tcp", IP: "127.0.0.1", Scheme: Scheme}
	if err := json.Unmarshal(text, &c); err != nil {
		return Connection{}, fmt.Errorf("not a JSON connection file: %w", err)
	}
	return c, c.validate()
}

func (c *Connection) validate() error {
	if c.Transport != "tcp" && c.Transport != "ipc" {
		return fmt.Errorf("transport %q must be tcp or ipc", c.Transport)
	}
	if c.IP == "" {
		return errors.New("ip is empty")
	}
	for _, channel := range c.listPorts() {
		if channel.port < 1 || (c.Transport == "tcp" && channel.port > 65535) {
			return fmt.Errorf("%s is %d, which is not a port", channel.name, channel.port)
		}
	}
	if c.Key == "" && c.Transport != "ipc" {
		return errors.New("key is empty: any program that can reach the ports could run code; set a key, or use transport ipc")
	}
	if c.Key != "" && c.Scheme != Scheme {
		return fmt.Errorf("signature_scheme is %q; only %s is supported", c.Scheme, Scheme)
	}
	return nil
}

func (c *Connection) listPorts() []struct {
	name string
	port int
} {
	return []struct {
		name string
		port int
	}{
		{"shell_port", c.Shell}, {"iopub_port", c.IOPub}, {"stdin_port", c.Stdin},
		{"control_port", c.Control}, {"hb_port", c.Heartbeat},
	}
}

// Endpoint returns the endpoint of one of the ports in the form of package zmtp:
// "tcp://127.0.0.1:4711" or "ipc:///run/k-1".
func (c *Connection) Endpoint(port int) string {
	if c.Transport == "ipc" {
		return "ipc://" + c.IP + "-" + strconv.Itoa(port)
	}
	return "tcp://" + net.JoinHostPort(c.IP, strconv.Itoa(port))
}

// Codec returns the Codec for the connection's key.
func (c *Connection) Codec() *Codec { return NewCodec(c.Key) }

// WriteFile writes the connection file. It must not exist yet; only its owner may read it.
func (c *Connection) WriteFile(path string) error {
	if err := c.validate(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}
