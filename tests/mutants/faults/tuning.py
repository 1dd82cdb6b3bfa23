"""Faults in the tuner: what is kept, what a build takes of it, what is searched, predicted and run."""

from ..patch import Faults
from ..tuning import algorithms, farmed, formed, kept, on_devices, predicted, ran, searched, shared

STEPS = Faults("shared steps", "minitvm.tir.schedule.shared_steps", [shared()])
STEPS.edit("1 is True", "identity", "return type(value), repr(value)", "return repr(float(value or 0))")
STEPS.edit(
    "any call is the first one", "SharedSteps.call", "key = id(primitive), identity(arguments)", "key = id(primitive)"
)
STEPS.edit(
    "all functions of one code are one",
    "_of_function",
    "id(function.__code__), *map(identity, known)",
    "id(function.__code__)",
)
STEPS.edit("what may change is looked at once", "_of_function", "or not all(map(_never_changes, known))", "")
STEPS.edit("all maps are one", "_of_map", "return IndexMap, names, results, ", "return IndexMap, names, ")
STEPS.edit("a refusal loses its requirement", "SharedSteps.call", "str(error), error.requirement)", 'str(error), "")')
STEPS.edit("the caller's list is kept", "_copied", "isinstance(value, list)", "False")
STEPS.edit("the tree grows for ever", "SharedSteps.call", "if self.size >= MOST:", "if False:")
SCHEDULE = Faults("a schedule that shares steps", "minitvm.tir.schedule.schedule", [shared()])
SCHEDULE.edit(
    "a handle that is removed stays known",
    "Schedule.remove_rv",
    "self._removed |= {rv}\n        self._waypoint = None",
    "self._removed |= {rv}",
)
SCHEDULE.edit("steps share one history", "Schedule.take_over", "list(self._history)", "self._history")
SCHEDULE.edit(
    "what was undone is still there",
    "Schedule._restore",
    "self.take_over(at)",
    'self.take_over({**at, "_waypoint": self._waypoint})',
)

RECORDS = Faults("records", "minitvm.records.record", [kept()])
RECORDS.edit(
    "whether it was untuned is forgotten", "_plain", 'if f.name != "knobs"', 'if f.name not in ("knobs", "untuned")'
)
RECORDS.edit("the slowest run decides", "Record.time", "min(self.seconds)", "max(self.seconds)")
RECORDS.edit("a disturbed machine is a slow program", "undisturbed", "if one.gain else", "if False else")
RECORDS.edit("what failed has a time", "Record.time", "if self.outcome in MEASURED and self.seconds", "if self.seconds")
RECORDS.edit("targets of one kind are one", "target_key", "target.code_identity()", "target.kind")

DATABASE = Faults("records database", "minitvm.records.database", [kept()])
DATABASE.edit(
    "what was measured alone wins", "Database.best_of", "columns.outcome == PAIRED", "columns.outcome != 'wrong'"
)
DATABASE.edit("another target's record wins", "Database.best_of", "columns.target == target, ", "")
DATABASE.edit(
    "the first pair of a decision counts",
    "Database.best_of",
    "last[record.task, record.authority, record.decision] = record",
    "last.setdefault((record.task, record.authority, record.decision), record)",
)
DATABASE.edit(
    "seconds decide, not gains", "Database.best_of", "record.gain > best[task].gain", "record.time < best[task].time"
)
DATABASE.edit("what won alone beats a network", "Database.best_of", "authority < highest[task]", "False")
DATABASE.edit("a newer schema is read", "Database._prepare", "int(version) > SCHEMA", "int(version) > 10 * SCHEMA")
DATABASE.edit("a damaged file is used", "Database._prepare", 'if fault != "ok":', "if False:")
DATABASE.edit(
    "tables of somebody else are joined", "Database._prepare", 'if names and "about" not in names:', "if False:"
)

LOOKUP = Faults("records lookup", "minitvm.records.lookup", [kept()])
LOOKUP.edit("what is hardly faster is taken", "_winners", " and one.gain >= LEAST", "")

CACHE = Faults("lowering by decision", "minitvm.lowering.cache", [kept()])
CACHE.edit("the decision is no part of the key", "key_of", "if decision is None else", "if True else")

MANY = Faults("lowering many by decision", "minitvm.lowering.many", [kept()])
MANY.edit("nobody hears that a record no longer applies", "lower_functions", "if refused:", "if False:")

SEARCH = Faults("search", "minitvm.tune.search", [searched()])
SEARCH.edit("what seems faster wins without a pair", "Search._pair", "if is_faster(own, other):", "if True:")
SEARCH.edit("a candidate is tried again", "Search._ranked", "d not in self.seen and", "")
SEARCH.edit("equal code is measured again", "Search._batch", "elif one.code in self.codes:", "elif False:")
SEARCH.edit(
    "an earlier session is forgotten",
    "Search.begin",
    "if not self.finished and known is not None and not known.untuned and known.gain >= LEAST:",
    "if False:",
)
SEARCH.edit("the baseline is the best before", "Search._pair", "gain = self.best.gain or 1.0", "gain = 1.0")
SEARCH.edit("doubtful candidates come in their turn", "Search.draft", "DOUBTFUL * first", "1e9 * first")
SEARCH.edit("what is late is a record", "Search._batch", "if one.outcome == LATE:", "if False:")
SEARCH.edit("what was not compiled in time is refused", "Search.step", "elif failed.outcome != LATE:", "else:")
SEARCH.edit("a disturbed machine makes candidates slow", "Search._measured", ", min(untuned)\n", ", self.baseline\n")
SEARCH.edit("one half of a pair decides", "sure_gain", "return min(", "return max(")
SEARCH.edit("what lost at the end stays the best", "Search._settled", "record.gain >= LEAST", "True")
SEARCH.edit("the end is as good as the way", "Search.settle_alone", "record.caches + AT_THE_END", "record.caches")
SEARCH.edit("runs in a network are runs alone", "Search.begin", "if record.caches != IN_NETWORK:", "if True:")
SEARCH.edit(
    "what failed is no record",
    "Search._batch",
    "self._keep(one.decision, Cost(*one.cost), Measured(one.outcome, (), one.message))",
    "pass",
)

NETWORK = Faults("tuning a network", "minitvm.tune.network", [searched()])
NETWORK.edit(
    "weights do not count",
    "Line.gain",
    "self.search.task.weight * seconds",
    "seconds",
)
NETWORK.edit("the shortest task comes first", "_batches", "-line.gain / line.cost", "line.gain / line.cost")
NETWORK.edit(
    "all tasks begin before the first batch",
    "_batches",
    "if not line.has_begun:",
    "if not all(line.has_begun for line in lines):",
)

TASK = Faults("tasks", "minitvm.tune.task", [searched()])
TASK.edit("the name is a part of the key", "function_task", 'func.with_attr("global_symbol", "")', "func")
TASK.edit("equal operators count once", "extract", "len(same), function,", "1, function,")
TASK.edit(
    "all operators run on the target",
    "extract",
    "place(function.func, machine, function.operators).target",
    "machine",
)
TASK.edit("inputs are constants", "extract", "if value in stored", "if value not in stored")

CONFIRM = Faults("winning in the network", "minitvm.tune.confirm", [searched()])
CONFIRM.edit(
    "what crashes in the network is taken", "confirm", "elif answer.outcome == REFUSED:", "elif answer.outcome != OK:"
)

ALGORITHMS = Faults("algorithms of convolutions", "minitvm.tune.algorithms", [algorithms()])
ALGORITHMS.edit("what is known is measured again", "alternatives", "if (key, decision) not in known", "if True")
ALGORITHMS.edit("what is hopeless is built", "alternatives", "< DOUBTFUL *", "< 1e9 *")
ALGORITHMS.edit("what seems faster is taken", "decide", "if record.gain < LEAST]", "if True]")
BUILDS = Faults("builds of a network", "minitvm.tune.builds", [searched(), algorithms()])
BUILDS.edit("what the whole loses does not count", "without_gains_of_some", "<= 1.0", "<= 1e9")
BUILDS.edit("nothing is ever faster", "without_gains_of_some", "<= 1.0", "<= 0.0")
DECIDED = Faults("decided algorithms", "minitvm.strategy.algorithms", [algorithms()])
DECIDED.edit("decisions are not taken", "decided_first", "return [first, *", "return [options[0], *")
DECIDED.edit("the block is forgotten", "Convolution.key", "in blocks of {block}", "in blocks")

IN_NETWORK = Faults("builds of a network in turn", "minitvm.tune.in_network", [searched()])
IN_NETWORK.edit("a barrier is nobody's", "steps_of", "if not isinstance(step, Barrier):", "if True:")
IN_NETWORK.edit("one open size is all that is tried", "arguments", "SIZES if variables else SIZES[:1]", "SIZES[:1]")

RESIDUAL = Faults("residual", "minitvm.tune.residual", [predicted()])
RESIDUAL.edit("the mean is lost", "Residual.predict", "self._mean + _covariance", "_covariance")
RESIDUAL.edit(
    "the mean is that of the points",
    "Residual.fit",
    "(self._inverse @ logs).sum() / self._inverse.sum()",
    "logs.mean()",
)
RESIDUAL.edit("nothing is known", "Residual.uncertainty", "common - shared @ self._inverse @ shared.T", "common")
RESIDUAL.edit("those alike are taken, too", "boldest", "unknown -= np.outer(row, row) / (row[one] + NOISE)", "pass")
RESIDUAL.edit("nobody is bold", "boldest", "- BOLD *", "- 0.0 *")
RESIDUAL.edit("operators have nothing of their own", "_covariance", '"task": task, "pair": rule & task,', "")
RESIDUAL.edit("knobs do not count", "_squares", "row[columns[name]] = value", "row[columns[name]] = 0.0")
RESIDUAL.edit(
    "all rules are alike", "_covariance", 'shared("target"), shared("rule")', 'shared("target"), shared("target")'
)
RESIDUAL.edit("what is left out teaches", "left_out", "/ np.diag(inverse)", "")
RESIDUAL.edit("the mean is known", "left_out", "inverse -= np.outer(ones, ones) / ones.sum()", "pass")
RESIDUAL.edit("the first points count", "Residual.fit", "points[-MOST:]", "points[:MOST]")

COSTS = Faults("sketch costs", "minitvm.machines.simd.strategy.sketch_costs", [predicted()])
COSTS.edit("what sticks out is not counted", "_ceil", "formula(a).expr + b.expr - 1", "formula(a).expr")
COSTS.edit("spills are free", "tiling_cost", "+ rated(spilled, rate / 2)", "")
COSTS.edit("panels are shared out by the tile", "tiling_cost", "len(order) if tasks is None else tasks", "len(order)")
COSTS.edit("edges are free", "tiling_cost", "len(edges) > _VERSIONS", "False")
COSTS.edit("windows are not kept", "_slides_along", "steps[name] == steps.get(last.name)", "False")
COSTS.edit("windows are loaded again", "tiling_cost", "tile[slides] + (steps - 1)", "tile[slides] * steps")
COSTS.edit("all vectors begin where lines do", "tiling_cost", ", rated(lines, _LOADS))", ")")
COSTS.edit("vectors are used once", "_live", "if name not in operand.axes:", "if False:")
COSTS.edit("all of it comes from memory", "TilingCost.moved", "found[2] > held.max(axis=0).reshape(shape)", "True")
COSTS.edit("the result is free", "TilingCost.moved", "found[1] + 2 * result", "found[1]")
COSTS.edit("the dearest tiles first", "fitting_tiles", "np.argsort(compute + memory", "np.argsort(-compute - memory")

TRAFFIC = Faults("sketch traffic", "minitvm.machines.simd.strategy.sketch_traffic", [predicted()])
TRAFFIC.edit(
    "a cache holds one nest more",
    "into",
    "held.sum(axis=0), len(touched) - 1",
    "held.sum(axis=0) + 1, len(touched) - 1",
)
TRAFFIC.edit("groups are not known", "groups_of", "if len(by) == 1 and by != {1}", "if False")
TRAFFIC.edit("tiles end where groups do", "groups_read", " + crosses * (tile + read * -1)", "")
TRAFFIC.edit("a nest touches each group again", "Dimension.reach", "groups_read(sizes[name], group)", "sizes[name]")
TRAFFIC.edit("loops outside bring nothing again", "into", "* runs[around, which]", "")
TRAFFIC.edit("lines are as long as elements", "touched", "+ (line - itemsize)", "")
TRAFFIC.edit("rows lie beside one another", "touched", "if one.stride * min(steps) * itemsize <= line:", "if True:")
TRAFFIC.edit("any quotient will do", "merged", "is_const(outer.b, n) and is_const(inner.b, n)", "False")

FORMS = Faults("forms of sketches", "minitvm.machines.simd.strategy.sketch_forms", [formed()])
FORMS.edit("what the vectors share is packed", "_is_worth_packing", "operand.along(last[-1]) != SAME and ", "")
FORMS.edit("all terms are split", "_forms", "kinds <= {CONTIGUOUS, SAME} and ", "")

RUNNER = Faults("runner", "minitvm.tune.runner", [ran()])
RUNNER.edit("NaN equals everything", "_difference", "not np.isfinite(found[finite]).all()", "False")
RUNNER.edit("integers may differ", "_difference", "float(np.any(wanted != found))", "0.0")
RUNNER.edit("disturbed runs are enough", "_timed", "all(map(_is_settled, seconds))", "True")
RUNNER.edit("a crash is a success", "Child.ask", "if os.WIFSIGNALED(status)", "if False")
RUNNER.edit("a hang is waited for", "Child.ask", '(self._replies, request["limit"])', "(self._replies, 25.0)")

MEASURE = Faults("measuring", "minitvm.tune.measure", [ran()])
MEASURE.edit("the caches are not stated", "caches", 'if nbytes else "warm"', 'if not nbytes else "warm"')

ON_DEVICES = Faults("runner with a device", "minitvm.tune.runner", [on_devices()])
ON_DEVICES.edit("each candidate opens the device", "on_a_device", "if child is None or child.has_ended:", "if True:")
ON_DEVICES.edit("all that was ever written is said", "Child.ask", "self._said.seek(begin)", "self._said.seek(0)")
ON_DEVICES.edit("what a device lacks is a crash", "measured", '"outcome": REFUSED', '"outcome": CRASHED')
ON_DEVICES.edit("calls are timed by the host", "measured", "function.clock(copies) or HostClock", "HostClock")

CLOCK = Faults("the clock of a device", "minitvm.runtime.device.clock", [on_devices()])
CLOCK.edit("the host's commands count", "Clock.__call__", "before, _ =", "before, _ = _nothing, 0 and")
CLOCK.edit(
    "rounds are not whole", "Clock.__init__", "list(calls) * ceil(size / len(calls))", "(list(calls) * size)[:size]"
)
CLOCK.edit("the time is that of a group", "Clock.__call__", "/ count", "")

EVENTS = Faults("events of CUDA", "minitvm.machines.cuda.runtime.driver", [on_devices()])
EVENTS.edit("milliseconds are seconds", "CudaDevice.timed", "* 1e-3", "")
EVENTS.edit("events stay", "CudaDevice.timed", "self.driver.cuEventDestroy)", "lambda event: None)")
EVENTS.edit("the clock begins too early", "CudaDevice.timed", "        before()\n", "")

NEAR = Faults("bytes near to a machine", "minitvm.target.machines", [ran()])
NEAR.edit("one core's cache is enough", "CPU.near_bytes", "2 * self.l2.size * self.cores", "2 * self.l2.size")

MESSAGE = Faults("farm messages", "minitvm.tune.farm.message", [farmed()])
MESSAGE.edit(
    "any signature will do", "checked", "if not hmac.compare_digest(signature, _signature(body, key)):", "if False:"
)
MESSAGE.edit("the signature is of the name alone", "_signature", "_PURPOSE + body", "_PURPOSE + body.split(b'\\0')[0]")
MESSAGE.edit("a signature of an artifact will do", "_signature", "_PURPOSE + body", "b'minitvm artifact\\0' + body")

WORK = Faults("farm work", "minitvm.tune.farm.worker", [farmed()])
WORK.edit("any function is work", "_named", 'if name.partition(".")[0] not in _OURS:', "if False:")

REMOTE = Faults("remote measuring", "minitvm.tune.remote", [farmed()])
REMOTE.edit("nothing is compared with on another board", "measured", "if not expected.exists() and", "if False and")
REMOTE.edit("the first to end is the first asked", "RemoteRunner.each", "yield number, every", "yield 0, every")
REMOTE.edit("artifacts stay", "_in_runner", "path.unlink(missing_ok=True)", "pass")
