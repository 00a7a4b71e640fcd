package mcpclient

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of the reference servers are found by the words of someone who does not know their
// names.
func TestMatchScore(t *testing.T) {
	t.Parallel()
	tools := []*mcp.Tool{
		{Name: "get-sum", Description: "Returns the sum of two numbers"},
		{Name: "search_nodes", Description: "Search for nodes in the knowledge graph based on a query"},
		{Name: "create_entities", Description: "Create multiple new entities in the knowledge graph"},
		{Name: "list_directory", Description: "Get a detailed listing of all files and directories in a specified path."},
		{Name: "convert_time", Description: "Convert time between timezones"},
		{Name: "deleteFile", Description: "Removes it for good"},
	}
	for words, want := range map[string]string{
		"add numbers": "get-sum", "number": "get-sum", "summing": "get-sum", "summation": "get-sum", "searching a node": "search_nodes", "entity": "create_entities",
		"directories": "list_directory", "dir": "list_directory", "converting times": "convert_time", "deleting files": "deleteFile", "timezone conversion": "convert_time",
	} {
		best, most := "", 0
		for _, tool := range tools {
			if n := matchScore("g", tool, splitWords(words)); n > most {
				best, most = tool.Name, n
			}
		}
		if best != want {
			t.Errorf("%q finds %q first, want %q", words, best, want)
		}
	}
}
