package core_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// In traces a job is JOB(id), its run of a time RUN(id:time), what it decides
// JOB(id)/occurrence/N, and the scheduler of runs that begin with a byte SHARD(byte). Jobs have the ids in traceJobs, runs the times of the two
// hours from the start of the clock, and the first milliseconds.
var traceJobs = []string{"nightly", "report", "other"}

var (
	jobName     = regexp.MustCompile(`JOB\((\w+)\)`)
	runName     = regexp.MustCompile(`RUN\((\w+):([^)]+)\)`)
	shardName   = regexp.MustCompile(`SHARD\(([0-9a-f]{2})\)`)
	derivedID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	jobIDs      = sync.OnceValue(makeJobIDs)
	theFraction = ".000Z"
)

func makeJobIDs() map[string]string {
	names := map[string]string{}
	for _, job := range traceJobs {
		key := core.JobRef("", "", job).ID
		names[key.String()] = "JOB(" + job + ")"
		at := func(t core.Time) {
			name := core.RunID(job, t)
			names[core.RunRef("", "", name).ID.String()] = "RUN(" + strings.Replace(name, theFraction, "Z", 1) + ")"
		}
		for s := range 7200 {
			at(start.Add(time.Duration(s) * time.Second))
		}
		for ms := range 10 {
			at(start + core.Time(ms))
		}
		for n := range uint64(20) {
			name := fmt.Sprintf("JOB(%s)/occurrence/%d", job, n+1)
			names[core.ChildID(key, "occurrence", 0, n+1).String()] = name
			for batch := range 40 {
				for place := range 4 {
					names[core.ChildID(key, "occurrence", stepOf(batch, place), n+1).String()] = name
				}
			}
		}
	}
	for shard := range 256 {
		run := uuid.UUID{0: byte(shard)}
		names[core.SchedulerRef(run).ID.String()] = fmt.Sprintf("SHARD(%02x)", shard)
	}
	return names
}

// idNames writes short ids for long ones.
type idNames struct{ plain *strings.Replacer }

func (n idNames) Replace(s string) string {
	return derivedID.ReplaceAllStringFunc(n.plain.Replace(s), func(id string) string {
		if name, ok := jobIDs()[id]; ok {
			return name
		}
		return id
	})
}

// expandJobIDs writes them out again.
func expandJobIDs(s string) string {
	s = jobName.ReplaceAllStringFunc(s, func(m string) string {
		return core.JobRef("", "", jobName.FindStringSubmatch(m)[1]).ID.String()
	})
	s = shardName.ReplaceAllStringFunc(s, func(m string) string {
		var first byte
		_, _ = fmt.Sscanf(m, "SHARD(%x)", &first)
		return core.SchedulerRef(uuid.UUID{first}).ID.String()
	})
	return runName.ReplaceAllStringFunc(s, func(m string) string {
		part := runName.FindStringSubmatch(m)
		if !strings.Contains(part[2], ".") {
			part[2] = strings.TrimSuffix(part[2], "Z") + theFraction
		}
		return core.RunRef("", "", part[1]+":"+part[2]).ID.String()
	})
}
