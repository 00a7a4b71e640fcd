// Package wire is the messages of Jupyter: their frames, their signatures, and connection
// files. It opens no sockets and starts no goroutines.
//
// A message is a list of frames: identities, the delimiter "<IDS|MSG>", a signature, four JSON
// objects (header, parent header, metadata, content), and buffers. The outside facts are those of
// "Messaging in Jupyter" 5.x (jupyter-client.readthedocs.io/en/stable/messaging.html) and of
// jupyter_client 8.10's session.py.
package wire
