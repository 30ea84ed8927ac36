package page

import (
	"strconv"
	"time"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// daemonTiles tell whether the loop of the instance that answers keeps up, and which instance that is. The numbers belong to all tenants:
// a token that is bound sees the instance and its version alone.
func (q *visit) daemonTiles() ([]tile, []block, error) {
	var info wire.Info
	if err := q.get("/info", nil, &info); err != nil {
		return nil, nil, err
	}
	here := []block{{Title: "This instance", Facts: facts(fact{"Version", textOf(info.Version)}, fact{"Instance", codeOf(info.Instance).to(q.page("/system"))})}}
	if !q.who.Unbound() {
		return nil, here, nil
	}
	var s wire.System
	if err := q.get("/system", nil, &s); err != nil {
		return nil, nil, err
	}
	system := q.page("/system")
	return []tile{
		{Name: "loop lag", Value: seconds(s.LoopLagSeconds), Href: system, Tone: toneOfLag(s), Hint: "the most in the last minute"},
		{Name: "commits a second", Value: strconv.FormatFloat(s.CommitsPerSecond, 'f', -1, 64), Href: system, Hint: "mean of the last minute"},
	}, here, nil
}

// toneOfLag says whether the loop keeps up.
func toneOfLag(s wire.System) tone {
	if s.LoopLagSeconds > s.LoopLagLimitSeconds {
		return toneBad
	}
	return toneGood
}

func seconds(s float64) string { return precisely(time.Duration(s * float64(time.Second))) }
