// Package fleet is for programs of which several run on one database ([store.Cluster]): one owns a partition and works on it, the
// others stand by, and one of them takes the partition over when the owner has given it back, or is silent.
//
// [Run] calls a function while this process is the owner, with the partition's store, on which the function runs an engine:
//
//	err := fleet.Run(ctx, fleet.Options{Cluster: cluster, Name: "a"}, func(ctx context.Context, t fleet.Term) error {
//		engine, err := shell.New(shell.Options{Store: t.Store, Clock: t.Clock, Handover: t.Handover, Tools: tools})
//		if err != nil {
//			return err
//		}
//		return engine.Run(ctx)
//	})
//
// Where the database is divided into several partitions ([store.Layout]) a [Group] is what [Run] is for one: see below.
//
// # When it takes over
//
// A process that stands by looks at the partition every half second, and more often where the lease is short. It claims a partition
// that nobody owns at once, and one whose owner was silent for [Options.Lease]. Silence is time on this process's steady clock
// between looks that the database answered, each less than half a lease after the one before, that saw the same number of signs of life;
// any look that fails begins the count anew. So a database that is away, or a process that was suspended, makes nobody take over. The
// clocks of processes and of the database need not agree. Several that see the same silence wait for moments that differ by their
// names; the database lets one of them have the partition.
//
// What a process does meanwhile is [Options.StandBy]: it has ended before the function is called. [Options.Events] is told of each change.
//
// # Time
//
// [Term.Clock] goes by the database's clock, where it tells its time ([store.Timed]): the difference is measured as a term begins, and
// at each sign of life that a process gives. So an engine sees no jump when a process on another machine takes over.
//
// # When it stops working
//
// The owner gives a sign of life every fifth of the lease, beside its commits: a process gives those of its instance and of all that it owns together
// ([store.Cluster] Renew). Nothing in this package keeps an owner from working that
// was silent, or frozen: the store does, since it refuses whatever an owner commits that was replaced. As soon as the owner learns
// that, or its store fails in another way, the context of the function ends with the reason as its cause, and once the function has
// returned the process stands by again. When the context of Run ends, the partition is given back after the function has returned.
//
// # What it begins
//
// A process that was frozen learns by its next commit or sign of life that it was replaced. Its engine begins what a commit from before says to do outside of the
// store, such as a tool, only while nobody can have taken the partition over: less than a lease after a sign of life was sent that the database took (Holds of
// [Term.Handover]).
//
// # Handover
//
// An engine that is given [Term.Handover] gives the partition back as soon as it is told to stop and nothing but tools runs, if another process is alive. The tools
// go on in this process, which stays in the list of instances until they have ended, and count at the next owner.
//
// # Several partitions
//
// [Group.Run] calls a function for each partition that this process should have, several at once:
//
//	layout, err := cluster.Layout(ctx)
//	...
//	group, err := fleet.NewGroup(fleet.Options{Cluster: cluster, Name: "a"}, layout)
//	...
//	err = group.Run(ctx, func(ctx context.Context, t fleet.Term) error {
//		engine, err := shell.New(shell.Options{Store: t.Store, Clock: t.Clock, Partition: t.Partition, Partitions: t.Partitions, Handover: t.Handover, Tools: tools})
//		...
//		return engine.Run(ctx)
//	})
//
// The database is divided once, before anybody opens a partition, by [store.Cluster] SetLayout with [core.PartitionRule]; until then Layout fails with [store.ErrNotFound]. What
// is made for a tenant has to be given to the engine of the partition that [core.Partition] names, or nobody finds it there: an engine that knows how many partitions there
// are refuses it otherwise ([effects.CodeElsewhere]). A router finds that engine for requests (package httpapi): the program in examples/partitions has one.
//
// Which instance should have a partition is what [Place] says of those that are alive, and do not drain. It claims the partition once nobody owns it, or its owner was silent
// for a lease. Another one claims it a lease after that, if the first has not taken it, and a third one after two. An owner that sees that another instance should
// have the partition gives it back: the context of its work ends with [ErrMoved]. One moves at a time, and none within a lease after an instance has come or
// gone, but from an instance that drains, or once [Group.Rebalance] was called, so that a process that is started anew gets back what it had and nothing else is interrupted. What is bound to this machine does not move ([Options].Bound).
//
// An instance that is to be emptied drains ([store.Cluster] Drain): it gives back all that is not bound, if another one can have it, and claims nothing until it is started anew or the
// drain is taken back. One whose context has ended says so before it gives its partitions back; the others have them within a second.
//
// While the instances have engines of different versions ([Options].Core), the greatest one that half of them have counts: the others claim nothing, and give back
// what those with it should have.
//
// [Group.Member] tells who owns a partition, such as for who passes requests on. [Options.Events] is told of each partition by its number, and of the process with -1.
package fleet
