package sim

import "slices"

// Shrink leaves out of a run that has failed whatever it fails without, in at most that many further runs: it gives the report of a
// run of the same seed with fewer requests and faults in which one of the same rules is violated. The options are made anew for each.
func Shrink(failed *Report, options func() Options, runs int) (*Report, error) {
	best := failed
	again := func(kept []int) (bool, error) {
		runs--
		o := options()
		o.Keep = kept
		rep, err := Run(failed.Seed, o)
		if err != nil {
			return false, err
		}
		if same := sameRule(failed, rep); !same {
			return false, nil
		}
		best = rep
		return true, nil
	}
	for part := (len(best.Kept) + 1) / 2; part > 0 && runs > 0; {
		without := false
		for from := 0; from < len(best.Kept) && runs > 0; {
			kept := slices.Delete(slices.Clone(best.Kept), from, min(from+part, len(best.Kept)))
			ok, err := again(kept)
			if err != nil {
				return best, err
			}
			if without = without || ok; !ok {
				from += part
			}
		}
		if !without {
			part /= 2
		}
	}
	return best, nil
}

func sameRule(a, b *Report) bool {
	return slices.ContainsFunc(a.Violations, func(v Violation) bool {
		return slices.ContainsFunc(b.Violations, func(o Violation) bool { return o.Rule == v.Rule })
	})
}
