"""Rules for jobs: the nearest default, the strictest maximum, the values allowed at all levels; omitted keys obey
them, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.convert import job_of, with_defaults
from scheduler.errors import Invalid
from scheduler.model import ONE, Job, Pool, ProjectName, UserName
from scheduler.pool.file import file_of, parse, pool_of
from scheduler.pool.rules import check_job, rules_of
from scheduler.schema import JobSubmit, PolicyEntry

POOL = """
policy:
  maxima: {gpus: 8, max_runtime: 86400}
  defaults: {priority: 40}
projects:
  - name: research
    policy:
      defaults: {gpus: 2, gpu_types: [A100]}
      maxima: {total_gpus: 16, priority: 80}
      allowed: {gpu_types: [A100, H100], node_pools: [train]}
  - name: vision
    parent: research
    policy:
      defaults: {gpus: 1, min_runtime: 60}
      maxima: {workers: 4, max_runtime: 200000}
      allowed: {gpu_types: [A100, T4], preemptible: [true]}
  - {name: speech}
"""


def pool(text: str = POOL) -> Pool:
    return pool_of(parse(text), Pool(), now=0.0)


def job(project: str, there: Pool, **sent: Any) -> Job:
    given = with_defaults(JobSubmit(command=["true"], **sent), rules_of(ProjectName(project), there))
    return job_of(given, user=UserName("ada"), project=ProjectName(project), now=0.0, idempotency_key=None)


def admitted(project: str, there: Pool | None = None, **sent: Any) -> Job:
    there = there or pool()
    made = job(project, there, **sent)
    check_job(made.request, made.program, there)
    return made


def test_an_unset_value_gets_the_nearest_default_or_an_allowed_value() -> None:
    vision = admitted("vision")
    assert vision.request.shape.gpus == ONE
    assert vision.request.min_runtime == 60
    assert vision.request.gpu_types == ("A100",)
    assert vision.request.node_pools == ("train",)
    assert vision.request.priority == 40
    assert vision.program.max_runtime == 86400, "the strictest maximum of those above, since no default is said"
    research = admitted("research")
    assert research.request.shape.gpus == 2 * ONE
    speech = admitted("speech")
    assert (speech.request.shape.gpus, speech.request.gpu_types, speech.request.node_pools) == (
        ONE,
        None,
        None,
    )


BOUNDS = """
policy:
  maxima: {grace: 20, cpus: 8, memory_gib: 64, retries: 3, max_runtime: 3600}
projects:
  - name: a
    policy: {defaults: {cpus: 4, retries: 1}}
  - {name: b}
"""


def test_grace_retries_cpus_and_memory_are_ruled_too() -> None:
    there = pool(BOUNDS)
    made, other = admitted("a", there), admitted("b", there)
    assert (made.request.shape.cpus, made.program.retries, made.program.grace) == (4000, 1, 20)
    assert (other.request.shape.cpus, other.request.shape.memory, other.program.retries) == (None, None, 0), (
        "who asks for no CPUs gets none, however many are allowed"
    )
    with pytest.raises(Invalid, match=r"grace may be 20 s at most .* \(maxima.grace of the pool\), not 60 s"):
        admitted("a", there, grace=60)
    with pytest.raises(Invalid, match=r"a worker's memory may be 64 GiB at most .*, not 128 GiB"):
        admitted("a", there, memory_gib=128)
    two = [{"name": "launcher", "gpus": 0}, {"name": "workers", "cpus": 16}]
    with pytest.raises(Invalid, match="a worker's CPUs may be 8 at most"):
        admitted("a", there, groups=two)
    assert admitted("a", there, groups=two[:1]).request.shape.cpus is None
    assert pool_of(file_of(there), there, now=0.0) == there


def test_an_estimate_beyond_the_time_that_is_ruled_names_the_rule() -> None:
    with pytest.raises(Invalid, match=r"longer than 3600 s.*\(maxima.max_runtime of the pool\)") as refused:
        admitted("a", pool(BOUNDS), expected_runtime=7200)
    assert refused.value.field == "expected_runtime"


def test_a_jobs_own_values_count_within_the_rules() -> None:
    made = admitted("vision", gpus=4, workers=4, priority=80, max_runtime=60)
    assert (made.request.shape.gpus, made.request.priority, made.program.max_runtime) == (4 * ONE, 80, 60)
    assert admitted("vision", gpu_memory_gib=10).request.shape.gpu_memory == 10 * 1024


@pytest.mark.parametrize(
    ("sent", "field", "sentence"),
    [
        ({"gpus": 16}, "gpus", "gpus: a worker's GPUs may be 8 at most {} (maxima.gpus of the pool), not 16."),
        (
            {"gpus": 8, "workers": 3},
            "workers",
            "A job's GPUs together may be 16 at most {} (maxima.total_gpus of project 'research'), not 24.",
        ),
        ({"workers": 5}, "workers", "workers may be 4 at most {} (maxima.workers of project 'vision'), not 5."),
        ({"priority": 90}, "priority", "priority may be 80 at most {} (maxima.priority of project 'research')"),
        (
            {"max_runtime": 90000},
            "max_runtime",
            "max_runtime may be 86400 s at most {} (maxima.max_runtime of the pool), not 90000 s.",
        ),
        (
            {"gpu_types": ["A100", "H100"]},
            "gpu_types",
            "gpu_types must be A100 {} (allowed.gpu_types of project 'vision'), not H100.",
        ),
        (
            {"node_pools": ["fast"]},
            "node_pools",
            "node_pools must be train {} (allowed.node_pools of project 'research'), not fast.",
        ),
        (
            {"preemptible": False},
            "preemptible",
            "preemptible must be true {} (allowed.preemptible of project 'vision'), not false.",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_refusal_names_the_rule_and_its_project(sent: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        admitted("vision", **sent)
    assert sentence.format("in project 'vision'") in refused.value.sentence
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("policies", "field", "sentence"),
    [
        (
            "[{name: a, policy: {maxima: {gpus: 2}}}, {name: b, parent: a, policy: {defaults: {gpus: 4}}}]",
            "projects[1].policy.defaults.gpus",
            "the default gpus is 4 (defaults.gpus of project 'b'), and project 'a' allows 2 at most (maxima)",
        ),
        (
            "[{name: a, policy: {allowed: {gpu_types: [A100]}}}, {name: b, parent: a, policy: {allowed: {gpu_types: "
            "[T4]}}}]",
            "projects[1].policy.allowed.gpu_types",
            "leaves no value that all projects above 'b' allow, too",
        ),
        (
            "[{name: a, policy: {allowed: {preemptible: [true]}, defaults: {preemptible: false}}}]",
            "projects[0].policy.defaults.preemptible",
            "the default preemptible is false (defaults.preemptible of project 'a'), and only true is allowed",
        ),
        (
            "[{name: a, limit: 2}, {name: b, parent: a, policy: {defaults: {gpus: 4}}}]",
            "projects[1].policy.defaults.gpus",
            "the default gpus is 4 (defaults.gpus of project 'b'), and project 'a' may hold 2 at most",
        ),
        (
            "[{name: a, policy: {defaults: {preemptible: false}}}, {name: b, parent: a, guaranteed: 1}, {name: c, "
            "parent: a}]",
            "projects[2].policy.defaults.preemptible",
            "can't be preempted (defaults.preemptible of project 'a') and would never start: it asks for 1 GPUs, and "
            "project 'c' is guaranteed 0; raise the guarantee, or make its jobs preemptible.",
        ),
        ("[{name: a, policy: {maxima: {gpuz: 2}}}]", "projects[0].policy.maxima.gpuz", "did you mean 'gpus'?"),
        ("[{name: a, policy: {allowed: {gpu_types: []}}}]", "projects[0].policy.allowed.gpu_types", "at least 1 item"),
    ],
)  # fmt: skip
def test_rules_that_contradict_each_other_are_refused_with_their_place(
    policies: str, field: str, sentence: str
) -> None:
    with pytest.raises(Invalid) as refused:
        pool(f"projects: {policies}")
    assert sentence in refused.value.sentence
    assert refused.value.field == field


def test_rules_are_written_to_the_pool_file_unchanged() -> None:
    assert pool_of(file_of(pool()), pool(), now=0.0) == pool()


def rule(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


TYPES = st.lists(st.sampled_from(["A100", "H100", "T4"]), min_size=1, unique=True)
POLICIES = st.fixed_dictionaries(
    {
        "defaults": rule(gpus=st.integers(0, 4), priority=st.integers(0, 100), gpu_types=TYPES),
        "maxima": rule(gpus=st.integers(0, 4), workers=st.integers(1, 4), total_gpus=st.integers(0, 8)),
        "allowed": rule(gpu_types=TYPES, preemptible=st.lists(st.booleans(), min_size=1, max_size=2, unique=True)),
    }
)


@given(
    tree=st.lists(POLICIES, min_size=1, max_size=4),
    asked=rule(gpus=st.integers(0, 5), workers=st.integers(1, 5), preemptible=st.booleans(), gpu_types=TYPES),
)
def test_an_admitted_job_obeys_every_project_above_it(tree: list[dict[str, Any]], asked: dict[str, Any]) -> None:
    projects = [
        {"name": f"p{n}", "policy": policy, **({"parent": f"p{n - 1}"} if n else {})} for n, policy in enumerate(tree)
    ]
    leaf = f"p{len(tree) - 1}"
    try:
        there = pool_of(parse(str({"projects": projects})), Pool(), now=0.0)
        made = admitted(leaf, there, **asked)
    except Invalid:
        return
    request = made.request
    for policy in tree:
        entry = PolicyEntry.model_validate(policy)
        most, allowed = entry.maxima, entry.allowed
        assert most.gpus is None or request.shape.gpus <= most.gpus * ONE
        assert most.workers is None or request.workers <= most.workers
        assert most.total_gpus is None or request.shape.gpus * request.workers <= most.total_gpus * ONE
        assert allowed.preemptible is None or request.preemptible in allowed.preemptible
        assert allowed.gpu_types is None or set(request.gpu_types or ["none"]) <= set(allowed.gpu_types)


@given(tree=st.lists(POLICIES, min_size=1, max_size=4))
def test_silence_breaks_no_rule(tree: list[dict[str, Any]]) -> None:
    """A job that names only its command is admitted, whatever the rules, once they do not contradict each other."""
    projects = [
        {"name": f"p{n}", "policy": policy, **({"parent": f"p{n - 1}"} if n else {})} for n, policy in enumerate(tree)
    ]
    try:
        there = pool_of(parse(str({"projects": projects})), Pool(), now=0.0)
    except Invalid:
        return
    admitted(f"p{len(tree) - 1}", there)
