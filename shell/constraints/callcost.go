package constraints

import (
	"math"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Steps of what CEL counts as one step though it takes as long as its values are large.
const (
	maxTextBytes   = 64 << 10 // of a string or bytes that an expression makes
	bytesOfAStep   = 10       // that are read or written in one step
	zoneSteps      = 300      // the rules of a time zone are read from a file
	objectSteps    = 500      // to compare a job or a run, with all that is in it
	tooManySteps   = math.MaxUint32
	maxWeightDepth = 8 // of lists in lists: checkCost lets deeper ones be compared nowhere
)

// callCosts counts the steps of a call by the sizes of its values, where CEL counts one:
// conversions, sizes, lists of long texts, time zones. A call is counted once it is done; no
// value that it gets is larger than what was counted before, or than [maxTextBytes].
type callCosts struct{}

// read-only: CEL's own counts, which hold where they are larger.
var standardCosts = cost.StandardOverloadTrackers()

// CallCost implements [cost.ActualCostEstimator].
func (callCosts) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	steps := uint64(1)
	if standard, ok := standardCosts[overloadID]; ok && !types.IsError(result) {
		if n := standard(args, result); n != nil {
			steps = *n
		}
	}
	steps = max(steps, ownSteps(function, args, result))
	return &steps
}

func ownSteps(function string, args []ref.Val, result ref.Val) uint64 {
	if n, isText := textBytes(result); isText && n > maxTextBytes {
		return tooManySteps
	}
	read := func(v ref.Val) uint64 { n, _ := textBytes(v); return uint64(n) / bytesOfAStep }
	steps := 1 + read(result)
	switch function {
	case operators.Equals, operators.NotEquals, operators.In, operators.OldIn:
		read = func(v ref.Val) uint64 { return weight(v, 0) }
	}
	for _, a := range args {
		steps = cost.SafeAdd(steps, read(a))
	}
	if len(args) != 2 {
		return steps
	}
	text, isText := args[1].(types.String)
	if _, isTime := args[0].(types.Timestamp); isTime && isText {
		return steps + zoneSteps
	}
	if in, ok := args[0].(types.String); ok && isText && function == overloads.Matches && !types.IsError(result) {
		return cost.SafeAdd(steps, uint64(matchWork(string(in), string(text)))/matchWorkUnit)
	}
	return steps
}

func textBytes(v ref.Val) (int, bool) {
	switch v := v.(type) {
	case types.String:
		return len(v), true
	case types.Bytes:
		return len(v), true
	}
	return 0, false
}

// weight gives the steps to read all of a value.
func weight(v ref.Val, depth int) uint64 {
	if n, isText := textBytes(v); isText {
		return uint64(n) / bytesOfAStep
	}
	switch v := v.(type) {
	case traits.Lister:
		return weightOfAll(v.Iterator(), depth, func(ref.Val) ref.Val { return nil })
	case traits.Mapper:
		return weightOfAll(v.Iterator(), depth, func(key ref.Val) ref.Val { value, _ := v.Find(key); return value })
	case types.Bool, types.Int, types.Uint, types.Double, types.Duration, types.Timestamp, types.Null, *types.Type, *types.Err, *types.Unknown, nil:
		return 0
	}
	return objectSteps
}

// weightOfAll adds up what an iterator gives, and what stands beside each.
func weightOfAll(it traits.Iterator, depth int, beside func(ref.Val) ref.Val) uint64 {
	steps := uint64(0)
	for depth < maxWeightDepth && it.HasNext() == types.True {
		v := it.Next()
		steps = cost.SafeAdd(steps, 1+weight(v, depth+1)+weight(beside(v), depth+1))
	}
	return steps
}
