package constraints

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// checkCost refuses what CEL counts as one step, and cannot interrupt, though it can
// take as long as one likes: a list that is joined with itself doubles each time, and
// to compare two lists of lists looks at all that is in them, however often the same
// one is. With this the number of steps bounds the time.
func checkCost(a *cel.Ast) error {
	rep := a.NativeRep()
	var found error
	ast.PreOrderVisit(rep.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err := costly(rep, e); err != nil && found == nil {
			at := rep.SourceInfo().GetStartLocation(e.ID())
			found = fmt.Errorf("line %d, column %d: %w", at.Line(), at.Column()+1, err)
		}
	}))
	return found
}

func costly(rep *ast.AST, e ast.Expr) error {
	if rep.GetType(e.ID()).Kind() == types.DynKind {
		return errors.New("the type of a value is not known before it is evaluated: use values of one type, and no dyn()")
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	args := e.AsCall().Args()
	switch name := e.AsCall().FunctionName(); name {
	case overloads.TypeConvertDyn:
		return errors.New("dyn() is not to be had here")
	case operators.Add:
		if rep.GetType(args[0].ID()).Kind() == types.ListKind && args[1].Kind() != ast.ListKind {
			return errors.New("lists cannot be joined: a list may only be followed by one that is written out, as in a + [1]")
		}
	case operators.Equals, operators.NotEquals:
		if t := rep.GetType(args[0].ID()); !flat(t) {
			return fmt.Errorf("values of the type %s cannot be compared: compare what is in them", cel.FormatCELType(t))
		}
	case operators.In, operators.OldIn:
		if t := rep.GetType(args[0].ID()); len(t.Parameters()) > 0 {
			return fmt.Errorf("a value of the type %s cannot be looked for in another one", cel.FormatCELType(t))
		}
	}
	return nil
}

// flat reports whether a type is a plain value, or a list or map of plain values.
func flat(t *types.Type) bool {
	for _, p := range t.Parameters() {
		switch p.Kind() {
		case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.StringKind,
			types.TimestampKind, types.TypeKind, types.UintKind:
		default:
			return false
		}
	}
	return true
}
