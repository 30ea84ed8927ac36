package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// key is that of a request which asks for what.
func key(name, what string) *engine.Once {
	return engine.NewOnce(sha256.Sum256([]byte(name)), func() [sha256.Size]byte { return sha256.Sum256([]byte(what)) })
}

// keyed is the context of one more try of a request with a key.
func keyed(ctx context.Context, name, what string) context.Context {
	return engine.WithOnce(ctx, key(name, what))
}

// replies are those to requests that are sent one after the other while the loop is busy, so that one batch takes them all.
func replies(t *testing.T, e *engine.Engine, requests ...func(ctx context.Context) (engine.Reply, error)) ([]engine.Reply, []error) {
	t.Helper()
	reps, errs := make([]engine.Reply, len(requests)), make([]error, len(requests))
	var wg sync.WaitGroup
	slow := acquire("slow")
	slow.If = func(core.State) error { <-time.After(time.Second); return nil }
	wg.Go(func() { _, _ = e.Ask(t.Context(), slow) })
	synctest.Wait()
	for i, ask := range requests {
		wg.Go(func() { reps[i], errs[i] = ask(t.Context()) })
		synctest.Wait()
	}
	wg.Wait()
	return reps, errs
}

func pushed(name string) engine.Request {
	ref := core.QueueRef("ns", "t", name)
	return engine.Request{Inputs: []core.Input{{To: ref, Event: core.QueuePush{Namespace: "ns", Tenant: "t", Name: name}}}, Want: ref}
}

func inputs(t *testing.T, st store.Store) (n int) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Journal(0, func(_ uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			n += len(entry.Inputs)
			return err
		})
	}))
	return n
}

func TestOfTwoWithOneKeyInABatchOneIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		push := func(what string, noted string) func(context.Context) (engine.Reply, error) {
			return func(ctx context.Context) (engine.Reply, error) {
				once := key("k", what)
				once.Note([]byte(noted))
				rep, err := e.Ask(engine.WithOnce(ctx, once), pushed("q"))
				if err == nil && rep.Err == nil {
					assert.Equal(t, "first", string(once.Noted()))
					assert.Equal(t, noted != "first", once.Repeated())
				}
				return rep, err
			}
		}
		before := inputs(t, st)
		reps, errs := replies(t, e, push("a", "first"), push("a", "second"), push("b", "third"))
		require.NoError(t, errors.Join(errs...))
		require.NoError(t, reps[0].Err)
		assert.Equal(t, reps[0], reps[1])
		require.ErrorIs(t, reps[2].Err, engine.ErrKeyReused)
		other, errs := replies(t, e, func(ctx context.Context) (engine.Reply, error) {
			return e.Ask(keyed(ctx, "l", "a"), pushed("q"))
		}, func(ctx context.Context) (engine.Reply, error) {
			return e.Ask(keyed(ctx, "l", "a"), acquire("h"))
		})
		require.NoError(t, errors.Join(errs...))
		require.NoError(t, other[0].Err)
		require.ErrorIs(t, other[1].Err, engine.ErrKeyReused, "another kind of input")
		assert.Equal(t, before+4, inputs(t, st), "the slow one, twice, and two more")
		stats, err := e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.Repeated)
	})
}

func TestWhatWasRefusedInABatchIsNoAnswerToTheNextOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		synctest.Wait()
		ref := core.QueueRef("ns", "t", "q")
		put := func(ev core.QueueEvent) func(context.Context) (engine.Reply, error) {
			return func(ctx context.Context) (engine.Reply, error) {
				return e.Ask(keyed(ctx, "k", ""), engine.Request{Inputs: []core.Input{{To: ref, Event: ev}}, Want: ref, As: "put"})
			}
		}
		reps, errs := replies(t, e, put(core.QueueConfigure{}), put(core.QueueCreate{Namespace: "ns", Tenant: "t", Name: "q"}), put(core.QueueConfigure{}))
		require.NoError(t, errors.Join(errs...))
		require.NotNil(t, reps[0].Result.Refused, "there is none")
		assert.Nil(t, reps[1].Result.Refused)
		assert.True(t, reps[1].Result.Changed)
		assert.Equal(t, reps[1], reps[2])
	})
}

// fickle is a context that ends once it was asked so often whether it has.
type fickle struct {
	context.Context
	left int
}

func (f *fickle) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestACallerWhoGoesWhileHisRequestIsLookedAtTakesNoOtherAlong(t *testing.T) {
	for left := range 3 {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			e := idle(t, engine.Options{Store: st})
			begin(t, e)
			synctest.Wait()
			before := inputs(t, st)
			reps, errs := replies(t, e, func(ctx context.Context) (engine.Reply, error) {
				return e.Ask(keyed(&fickle{ctx, left}, "k", ""), pushed("q"))
			}, func(ctx context.Context) (engine.Reply, error) {
				return e.Ask(keyed(ctx, "k", ""), pushed("q"))
			})
			require.NoError(t, errors.Join(errs...))
			require.NoError(t, reps[1].Err, "%d", left)
			assert.Equal(t, before+2, inputs(t, st))
		})
	}
}

func TestARepeatedRequestIsNotAnsweredBeforeTheFirstIsDurable(t *testing.T) {
	for name, c := range map[string]struct {
		disk error
		want error
	}{"and then alike": {}, "and not at all if it does not become that": {errors.New("no disk"), store.ErrUnconfirmed}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, d := beginLate(t, engine.Options{})
				ask := func() chan error {
					done := make(chan error, 1)
					go func() {
						rep, err := e.Ask(keyed(t.Context(), "k", ""), pushed("q"))
						done <- errors.Join(err, rep.Err)
					}()
					synctest.Wait()
					return done
				}
				first := ask()
				again := ask()
				unanswered(t, first, again)
				_, known, err := e.AnsweredBefore(keyed(t.Context(), "k", ""))
				require.NoError(t, err)
				assert.False(t, known)
				d.answers <- c.disk
				if c.disk == nil {
					d.settled()
				}
				synctest.Wait()
				require.ErrorIs(t, <-first, c.want)
				if c.disk == nil {
					require.NoError(t, <-again)
					assert.Equal(t, 1, inputs(t, d.durable))
				} else {
					require.Error(t, <-again)
				}
			})
		})
	}
}

func TestAnAnswerIsGivenAgainForTenMinutesAndNotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st, TickRate: time.Hour})
		begin(t, e)
		synctest.Wait()
		var made []core.State
		ask := func() {
			rep, err := e.Ask(keyed(t.Context(), "k", ""), pushed("q"))
			require.NoError(t, errors.Join(err, rep.Err))
			made = append(made, rep.State)
		}
		ask()
		<-time.After(engine.AnswersKept)
		known, err := e.WasAnswered(keyed(t.Context(), "k", ""))
		require.NoError(t, err)
		assert.True(t, known)
		ask()
		<-time.After(time.Millisecond)
		known, err = e.WasAnswered(keyed(t.Context(), "k", ""))
		require.NoError(t, err)
		assert.False(t, known)
		ask()
		ask()
		assert.Equal(t, made[0], made[1])
		assert.NotEqual(t, made[1], made[2])
		assert.Equal(t, made[2], made[3])
		assert.Equal(t, 2, inputs(t, st))
	})
}

// However many they are, and though nothing else happens, they go some hundreds at a time.
func TestOldAnswersAreForgottenAFewHundredsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		now := effects.TimeOf(time.Now())
		put := func(n int, at effects.Time) {
			write(t, st, func(tx store.Tx) error {
				for i := range n {
					if err := tx.PutAnswer(sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(at)}), store.Answer{At: at}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		put(1200, now)
		put(7, now.Add(9*time.Minute))
		left := func() (n int) {
			failed := errors.New("to see how many there are, without dropping them")
			require.ErrorIs(t, st.Update(t.Context(), func(tx store.Tx) (err error) {
				n, err = tx.DropAnswers(effects.MaxTime, 9999)
				return errors.Join(failed, err)
			}), failed)
			return n
		}
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		<-time.After(9 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1207, left())
		<-time.After(3 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 7, left())
		<-time.After(10 * time.Minute)
		synctest.Wait()
		assert.Zero(t, left())
	})
}

// spoiling keeps answers in another form than they were given.
type spoiling struct {
	store.Store
	as func(store.Answer) store.Answer
}

func (s *spoiling) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return fn(&spoilingTx{tx, s.as}) })
}

type spoilingTx struct {
	store.Tx
	as func(store.Answer) store.Answer
}

func (t *spoilingTx) PutAnswer(k store.AnswerKey, a store.Answer) error {
	return t.Tx.PutAnswer(k, t.as(a))
}

func TestAnAnswerThatCannotBeReadLetsNothingBeDoneTwice(t *testing.T) {
	for name, as := range map[string]func(string) string{
		"no JSON": func(string) string { return "{" },
		"a state that is none": func(s string) string {
			return regexp.MustCompile(`"state":"[^"]+"`).ReplaceAllString(s, `"state":"eA=="`)
		},
		"an answer of no name": func(s string) string {
			return regexp.MustCompile(`"answer":"[^"]+"`).ReplaceAllString(s, `"answer":"eAo="`)
		},
		"one of many is none": func(s string) string {
			return strings.Replace(s, `"of"`, `"each":[{"result":{"answer":"eAo="}}],"of"`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				e := idle(t, engine.Options{Store: &spoiling{st, func(a store.Answer) store.Answer {
					spoilt := as(string(a.Body))
					require.NotEqual(t, spoilt, string(a.Body))
					return store.Answer{At: a.At, Body: []byte(spoilt)}
				}}})
				begin(t, e)
				synctest.Wait()
				rep, err := e.Ask(keyed(t.Context(), "k", ""), pushed("q"))
				require.NoError(t, errors.Join(err, rep.Err))
				rep, err = e.Ask(keyed(t.Context(), "k", ""), pushed("q"))
				require.NoError(t, err)
				require.ErrorIs(t, rep.Err, store.ErrCorrupt)
				assert.Equal(t, 1, inputs(t, st))
			})
		})
	}
}

// A damaged record of the store's is told as that, and keeps nobody else waiting.
func TestADamagedAnswerIsToldToWhoAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: &damaged{st}})
		begin(t, e)
		synctest.Wait()
		reps, errs := replies(t, e, func(ctx context.Context) (engine.Reply, error) {
			return e.Ask(keyed(ctx, "k", ""), pushed("q"))
		}, func(ctx context.Context) (engine.Reply, error) {
			return e.Ask(ctx, pushed("q"))
		})
		require.NoError(t, errors.Join(errs...))
		require.ErrorIs(t, reps[0].Err, store.ErrCorrupt)
		require.NoError(t, reps[1].Err)
		assert.Equal(t, 2, inputs(t, st))
	})
}

type damaged struct{ store.Store }

func (s *damaged) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return fn(&damagedTx{tx}) })
}

type damagedTx struct{ store.Tx }

func (*damagedTx) Answer(store.AnswerKey) (store.Answer, error) {
	return store.Answer{}, fmt.Errorf("%w: the checksum", store.ErrCorrupt)
}

// Who is refused could have a commit for each of his tries.
func TestWhatAMachineRefusesIsNotKeptAndIsDecidedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		kept := 0
		e := idle(t, engine.Options{Store: &spoiling{st, func(a store.Answer) store.Answer { kept++; return a }}})
		begin(t, e)
		synctest.Wait()
		ask := func(ctx context.Context, r engine.Request) error {
			rep, err := e.Ask(ctx, r)
			if err == nil {
				_, err = rep.Answer()
			}
			return err
		}
		require.NoError(t, ask(t.Context(), acquire("ann")))
		for range 2 {
			var refused *effects.Refused
			require.ErrorAs(t, ask(keyed(t.Context(), "k", ""), acquire("bob")), &refused)
		}
		assert.Zero(t, kept)
		assert.Equal(t, 1, inputs(t, st))
		lock, err := e.Read(t.Context(), mainLock)
		require.NoError(t, err)
		require.NoError(t, ask(t.Context(), engine.Request{
			Inputs: []core.Input{{To: mainLock, Event: core.LockRelease{Holder: "ann", Token: lock.(core.Lock).Token}}}, Want: mainLock,
		}))
		once := key("k", "")
		require.NoError(t, ask(engine.WithOnce(t.Context(), once), acquire("bob")))
		assert.False(t, once.Repeated())
		assert.Equal(t, 1, kept)
		once.Note([]byte("of the next"))
		require.NoError(t, ask(engine.WithOnce(t.Context(), once), pushed("q")))
		assert.Equal(t, "of the next", string(once.Noted()))
		var refused *effects.Refused
		require.ErrorAs(t, ask(engine.WithOnce(t.Context(), once), acquire("ann")), &refused)
		assert.Nil(t, once.Noted(), "what was refused has none")
		require.NoError(t, ask(keyed(t.Context(), "k", ""), acquire("bob")), "and not refused, as he has it already")
		assert.Equal(t, 2, kept)
	})
}

// Nobody would learn that it was answered before.
func TestWhatIsPostedIsTakenEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		for range 2 {
			assert.True(t, e.Post(keyed(t.Context(), "k", ""), pushed("q")))
			synctest.Wait()
		}
		assert.Equal(t, 2, inputs(t, st))
	})
}

func TestAStoreBehindANetworkIsToldWhichAnswersAreLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{Store: memory.New()}
		e := idle(t, engine.Options{Store: f})
		begin(t, e)
		synctest.Wait()
		for range 2 {
			rep, err := e.Ask(keyed(t.Context(), "k", ""), pushed("q"))
			require.NoError(t, errors.Join(err, rep.Err))
		}
		assert.Equal(t, 2, f.answers)
		assert.Empty(t, f.untold)
	})
}

func TestEachOfManyIsAnsweredAsTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		require.NoError(t, func() error { _, err := e.Do(t.Context(), acquire("ann")); return err }())
		r := engine.Request{Many: &engine.Many{}}
		for _, in := range []core.Input{pushed("q").Inputs[0], pushed("r").Inputs[0], acquire("bob").Inputs[0]} {
			r.Inputs, r.Many.Want = append(r.Inputs, in), append(r.Many.Want, in.To)
		}
		ask := func() engine.Reply {
			rep, err := e.Ask(keyed(t.Context(), "k", ""), r)
			require.NoError(t, errors.Join(err, rep.Err))
			require.Len(t, rep.Each, 3)
			return rep
		}
		first, again := ask(), ask()
		require.NoError(t, first.Each[0].Err)
		assert.NotNil(t, first.Each[2].State, "which the refusal says more of")
		var refused *effects.Refused
		require.ErrorAs(t, again.Each[2].Err, &refused)
		for i := range first.Each {
			assert.Equal(t, first.Each[i].Result, again.Each[i].Result)
			assert.Equal(t, first.Each[i].State, again.Each[i].State)
			assert.Equal(t, fmt.Sprint(first.Each[i].Err), fmt.Sprint(again.Each[i].Err))
		}
	})
}

func TestARequestIsRepeatedIfAnyOfItsPartsIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		synctest.Wait()
		for try := range 2 {
			once := key("k", "")
			for part := range try + 1 {
				rep, err := e.Ask(engine.WithOnce(t.Context(), once), pushed("q"))
				require.NoError(t, errors.Join(err, rep.Err))
				assert.Equal(t, try > 0, once.Repeated(), "%d", part)
			}
		}
	})
}

func TestAKeyOfAnotherRequestIsRefusedByWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st})
		begin(t, e)
		synctest.Wait()
		ask := func(name, what string, r engine.Request) error {
			rep, err := e.Ask(keyed(t.Context(), name, what), r)
			return errors.Join(err, rep.Err)
		}
		require.NoError(t, ask("k", "a", pushed("q")))
		require.ErrorIs(t, ask("k", "b", pushed("q")), engine.ErrKeyReused)
		require.ErrorIs(t, ask("k", "a", acquire("h")), engine.ErrKeyReused, "another kind of input")
		known, err := e.WasAnswered(keyed(t.Context(), "k", "b"))
		require.NoError(t, err)
		assert.False(t, known)
		named := pushed("q")
		named.As = "a push"
		require.NoError(t, ask("l", "a", named))
		other := acquire("h")
		other.As = "a push"
		require.NoError(t, ask("l", "a", other), "what has one name is one part")
		assert.Equal(t, 2, inputs(t, st))
		once := key("p", "")
		for _, name := range []string{"a", "b", "a"} {
			rep, err := e.Ask(engine.WithOnce(t.Context(), once.Part(name, nil)), pushed("q"))
			require.NoError(t, errors.Join(err, rep.Err))
		}
		assert.Equal(t, 4, inputs(t, st), "parts that are asked for side by side have keys of their own, by their names")
		rep, err := e.Ask(engine.WithOnce(t.Context(), key("p", "").Part("a", func() [sha256.Size]byte { return sha256.Sum256([]byte("b")) })), pushed("q"))
		require.NoError(t, err)
		require.ErrorIs(t, rep.Err, engine.ErrKeyReused, "something else was asked for as the part of that name")
	})
}
