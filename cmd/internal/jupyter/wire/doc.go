// Package wire encodes and decodes the messages of Jupyter: their frames, their signatures, and
// connection files. It opens no sockets and starts no goroutines.
//
// A message is a list of frames: identities, the delimiter "<IDS|MSG>", a signature, four JSON
// objects (header, parent header, metadata, content), and buffers. The facts about Jupyter are from
// "Messaging in Jupyter" 5.x (jupyter-client.readthedocs.io/en/stable/messaging.html) and from
// jupyter_client 8.10's session.py.
package wire
