package constraints

import (
	"errors"
	"fmt"
	"regexp"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Bounds of the function matches: its time is the size of the pattern times the length of the
// text, and nothing can stop it.
const (
	maxPatternSize = 1000    // of a pattern, see [core.PatternSize]
	maxMatchWork   = 4 << 20 // of a call: the size of the pattern times the bytes of the text
	matchWorkUnit  = 64      // of that work counts as one step
)

// matchesFunction is CEL's matches with bounds: it takes the place of the standard library's.
func matchesFunction() []cel.EnvOption {
	standard := cel.StdLib(cel.StdLibSubset(env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches))))
	binding := cel.SingletonBinaryBinding(func(text, pattern ref.Val) ref.Val {
		p, ok := pattern.(types.String)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		re, err := compilePattern(string(p))
		if err != nil {
			return types.NewErr("matches: %v", err)
		}
		return match(text, re, string(p))
	})
	args := []*cel.Type{cel.StringType, cel.StringType}
	return []cel.EnvOption{standard, cel.Function(overloads.Matches,
		cel.Overload(overloads.Matches, args, cel.BoolType), cel.MemberOverload(overloads.MatchesString, args, cel.BoolType), binding,
	)}
}

// constantPatterns compiles patterns that are written out once for each expression. One that is
// too large, as an earlier version took it, is an error of the evaluation.
func constantPatterns() cel.ProgramOption {
	var list []*interpreter.RegexOptimization
	for _, overload := range []string{overloads.Matches, overloads.MatchesString} { // what has an overload goes before CEL's own
		list = append(list, &interpreter.RegexOptimization{
			Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
				re, err := compilePattern(pattern)
				return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
					if err != nil {
						return types.NewErr("matches: %v", err)
					}
					return match(values[0], re, pattern)
				}), nil
			},
		})
	}
	return cel.OptimizeRegex(list...)
}

// compilePattern compiles a pattern that is not too large.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if n := core.PatternSize(pattern); n > maxPatternSize {
		return nil, fmt.Errorf("the pattern %q has the size %d, which is more than %d: each character, class or operator counts one, a group two more, and what is repeated {n} times counts n times", clip.Text(pattern, maxQuoted), n, maxPatternSize)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%q is no regular expression: %w", clip.Text(pattern, maxQuoted), err)
	}
	return re, nil
}

func match(text ref.Val, re *regexp.Regexp, pattern string) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	if n := matchWork(string(s), pattern); n > maxMatchWork {
		return types.NewErr("matches: a text of %d bytes is too long for the pattern %q, whose size is %d: together they may be %d", len(s), clip.Text(pattern, maxQuoted), core.PatternSize(pattern), maxMatchWork)
	}
	return types.Bool(re.MatchString(string(s)))
}

func matchWork(text, pattern string) int64 {
	return int64(core.PatternSize(pattern)+1) * int64(len(text)+1)
}

// checkPatterns refuses, in a new expression, a pattern that is not written out, or that no text
// could be compared with.
func checkPatterns(a *cel.Ast) error {
	rep := a.NativeRep()
	var found error
	ast.PreOrderVisit(rep.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if found != nil || e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
			return
		}
		args := e.AsCall().Args()
		err := checkConstantPattern(args[len(args)-1])
		if err == nil {
			return
		}
		at := rep.SourceInfo().GetStartLocation(e.ID())
		found = fmt.Errorf("line %d, column %d: matches: %w", at.Line(), at.Column()+1, err)
	}))
	return found
}

func checkConstantPattern(e ast.Expr) error {
	var pattern types.String
	ok := e.Kind() == ast.LiteralKind
	if ok {
		pattern, ok = e.AsLiteral().(types.String)
	}
	if !ok {
		return errors.New(`the pattern must be written out, as in run.error.matches("^out of (memory|disk)"): it cannot be computed`)
	}
	_, err := compilePattern(string(pattern))
	return err
}
