package session

import (
	"context"
	"fmt"
	"reflect"

	"github.com/turnstone-repl/turnstone/internal/argschema"
)

// FunctionOf makes a Function from f. In must be a struct: its fields are the parameters, in order,
// under their JSON names. A field is optional if it is a pointer or has omitempty or omitzero. The
// tag doc describes a parameter. FunctionOf panics if In is not such a struct.
//
//	type Query struct {
//		SQL   string `json:"sql" doc:"one statement"`
//		Limit int    `json:"limit,omitempty"`
//	}
//	session.FunctionOf("query", "Runs SQL.", func(ctx context.Context, q Query) ([]Row, error) { … })
func FunctionOf[In, Out any](name, doc string, f func(ctx context.Context, in In) (Out, error)) Function {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("session.FunctionOf: the parameters of %s are a %s, not a struct", name, t))
	}
	params, err := argschema.OfType(t)
	if err != nil {
		panic(fmt.Sprintf("session.FunctionOf: %s: %v", name, err))
	}
	returns, err := argschema.OfType(reflect.TypeFor[Out]())
	if err != nil {
		returns = nil // a type without a schema, such as a channel
	}
	fn := Function{Name: name, Doc: doc, Params: params, Returns: returns}
	known := argschema.ParametersOf(t)
	if f != nil { // otherwise Check refuses it
		fn.Call = func(ctx context.Context, args map[string]any) (any, error) {
			var in In
			if text := argschema.JoinFaults(name, known.Assign(reflect.ValueOf(&in).Elem(), args)); text != "" {
				return nil, &CallError{"TypeError", text}
			}
			return f(ctx, in)
		}
	}
	return fn
}
