"""Reading a pool file: its meaning, and the location of errors."""

from __future__ import annotations

from functools import partial
from operator import add
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import Invalid
from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Environment,
    GpuType,
    GroupName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    Quota,
    ReclaimUpTo,
    Settings,
    User,
    UserGroup,
    UserName,
)
from scheduler.pool.file import dump, file_of, parse, pool_of, with_project, without_project
from scheduler.schema import PoolFile, ProjectEntry

EXAMPLE = """\
node_pools:
  - {name: build, environment: build, gpus: 2}
  - {name: train, environment: train, placement: spread}
projects:
  - {name: research, guaranteed: 6}
  - {name: vision, parent: research, guaranteed: 4, limit: 8, weight: 0.5, priority: 2, members: [ada, grace]}
  - {name: speech, parent: research, guaranteed: null, groups: [speech]}
users:
  - {name: ada, build_quota: 2}
default_build_quota: 0.5
topology: [rack]
max_jobs_per_user: 50
max_upload_gib_per_user: null
settings: {reclaim: guarantee, reservations: 0}
"""


def read(text: str) -> Pool:
    return pool_of(parse(dedent(text)), Pool(), now=100.0)


@pytest.mark.parametrize(
    ("quotas", "field", "sentence"),
    [
        ("[{limit: 2}]", "projects[0].quotas[0]", "needs a node_pool, a gpu_type or both"),
        ("[{gpu_type: A}]", "projects[0].quotas[0]", "is empty"),
        (
            "[{node_pool: tarin, limit: 2}]",
            "projects[0].quotas[0].node_pool",
            "there is no node pool 'tarin' for training; available: train.",
        ),
        ("[{node_pool: build, limit: 2}]", "projects[0].quotas[0].node_pool", "no node pool 'build'"),
        ("[{gpu_type: A, limit: 2}, {gpu_type: A, limit: 3}]", "projects[0].quotas[1]", "is given twice"),
        ("[{gpu_type: A, limit: 0.0001}]", "projects[0].quotas[0].limit", "goes in steps of 0.001"),
        (
            "[{gpu_type: A, guaranteed: 4, limit: 2}]",
            "projects[0].quotas[0].limit",
            "is below the guarantee",
        ),
        ("[{gpu_typ: A, limit: 1}]", "projects[0].quotas[0].gpu_typ", "did you mean 'gpu_type'?"),
    ],
)
def test_a_quota_names_a_part_of_the_pool_that_there_is(quotas: str, field: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        pool_of(parse(f"projects: [{{name: a, quotas: {quotas}}}]"), Pool(), 0.0)
    assert sentence in refused.value.sentence
    assert refused.value.field == field


def test_quotas_are_read_and_written_unchanged() -> None:
    text = "projects: [{name: a, quotas: [{gpu_type: H100, guaranteed: 1, limit: 4}, {node_pool: train, limit: 6}]}]"
    there = pool_of(parse(text), Pool(), 0.0)
    assert there.projects[0].quotas == (
        Quota(1000, 4000, gpu_type=GpuType("H100")),
        Quota(None, 6000, node_pool=TRAIN_POOL),
    )
    assert pool_of(file_of(there), there, 0.0) == there


def test_every_key_arrives() -> None:
    assert read(EXAMPLE) == Pool(
        node_pools=(
            NodePool(BUILD_POOL, Environment.BUILD, gpus=2),
            NodePool(TRAIN_POOL, Environment.TRAIN, read(EXAMPLE).node_pools[1].placement),
        ),
        projects=(
            Project(ProjectName("research"), guaranteed=6000, created=100),
            Project(
                ProjectName("vision"),
                ProjectName("research"),
                guaranteed=4000,
                limit=8000,
                weight=500,
                priority=2,
                created=100,
                members=frozenset({UserName("ada"), UserName("grace")}),
            ),
            Project(
                ProjectName("speech"),
                ProjectName("research"),
                guaranteed=None,
                created=100,
                groups=frozenset({GroupName("speech")}),
            ),
        ),
        users=(User(UserName("ada"), 2000),),
        default_build_quota=500,
        max_jobs_per_user=50,
        max_upload_gib_per_user=None,
        topology=("rack",),
        settings=Settings(reclaim=ReclaimUpTo.GUARANTEE, reservations=0),
    )
    assert read(EXAMPLE).node_pools[1].placement == "spread"


def test_omitted_keys_have_defaults() -> None:
    assert pool_of(PoolFile(), Pool(), now=0.0) == Pool()


def test_existing_projects_keep_their_age() -> None:
    before = Pool(projects=(Project(ProjectName("vision"), created=7.0),))
    after = pool_of(parse("projects: [{name: vision, guaranteed: 1}, {name: new}]"), before, now=100.0)
    assert [(p.name, p.created) for p in after.projects] == [("vision", 7.0), ("new", 100.0)]


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("", None, "The pool file is empty; it needs at least `projects`."),
        ("- a", None, "The pool file must be a mapping (`projects: …`)."),
        ("projects: [", None, "The pool file is not YAML, line 1"),
        ("projects: [{name: a}]\nprojects: []", None, "not YAML, line 2: 'projects' is given twice."),
        ("projects: [{name: a, name: b}]", None, "'name' is given twice."),
        ("project: []", "project", "project: there is no key 'project' here; did you mean 'projects'?"),
        ("zzz: 1", "zzz", "zzz: there is no key 'zzz' here; remove it."),
        (
            "projects: [{name: a, garanteed: 2}]",
            "projects[0].garanteed",
            "projects[0].garanteed: there is no key 'garanteed' here; did you mean 'guaranteed'?",
        ),
        (
            "projects: [{name: a}]\nsettings: {reclaims: x}",
            "settings.reclaims",
            "settings.reclaims: there is no key 'reclaims' here; did you mean 'reclaim'?",
        ),
        ("projects: [{guaranteed: 2}]", "projects[0].name", "projects[0].name is missing."),
        ("projects: []", "projects", "projects"),
        (
            "projects: [{name: a}, {name: b, guaranteed: many}]",
            "projects[1].guaranteed",
            'projects[1].guaranteed should be a valid number, not "many".',
        ),
        ("projects: [{name: a, guaranteed: '4'}]", "projects[0].guaranteed", 'valid number, not "4".'),
        ("projects: [{name: a, guaranteed: true}]", "projects[0].guaranteed", "valid number, not true."),
        ("projects: [{name: a, guaranteed: .inf}]", "projects[0].guaranteed", "finite number"),
        (
            "projects: [{name: a, guaranteed: -1}]",
            "projects[0].guaranteed",
            "greater than or equal to 0, not -1.",
        ),
        ("projects: [{name: a, guaranteed: 0.0005}]", "projects[0].guaranteed", "goes in steps of 0.001"),
        ("projects: [{name: 12}]", "projects[0].name", "projects[0].name should be a valid string, not 12."),
        ("projects: [{name: a}, {name: a}]", "projects[1].name", "'a' is given twice; names must be unique."),
        ("users: [{name: a}, {name: a}]", "users[1].name", "'a' is given twice; names must be unique."),
        (
            "projects: [{name: vision}, {name: a, parent: vison}]",
            "projects[1].parent",
            "projects[1].parent: there is no project 'vison'; did you mean 'vision'?",
        ),
        (
            "projects: [{name: a, parent: b}]",
            "projects[0].parent",
            "there is no project 'b'; add it or leave `parent` out.",
        ),
        (
            "projects: [{name: a, parent: b}, {name: b, parent: a}]",
            "projects[0].parent",
            "a → b → a forms a circle; a project cannot be its own ancestor.",
        ),
        ("projects: [{name: a, parent: a}]", "projects[0].parent", "a → a forms a circle"),
        (
            "projects: [{name: a, guaranteed: 4, limit: 2}]",
            "projects[0].limit",
            "projects[0].limit: project 'a' has a limit of 2, below its guarantee of 4; raise one or lower the other.",
        ),
        ("node_pools: [{name: a, environment: tain}]", "node_pools[0].environment", 'not "tain".'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, place: str | None, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text)
    assert sentence in refused.value.sentence
    assert refused.value.sentence.count("\n") == 0
    assert refused.value.field == place


def test_a_yaml_tag_makes_nothing_run() -> None:
    with pytest.raises(Invalid, match="not YAML"):
        read("projects: !!python/object/apply:os.system ['true']")


amounts = st.integers(0, 64_000)
names = st.text("abcdefgh", min_size=1, max_size=6)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    found: list[Project] = []
    for name in draw(st.lists(names, min_size=1, max_size=6, unique=True)):
        guaranteed = draw(st.none() | amounts)
        found.append(
            Project(
                ProjectName(name),
                parent=draw(st.none() | st.sampled_from([p.name for p in found])) if found else None,
                guaranteed=guaranteed,
                limit=draw(st.none() | amounts.map(partial(add, guaranteed or 0))),
                weight=draw(st.none() | amounts),
                priority=draw(st.integers(-5, 5)),
                created=draw(st.floats(0, 1e9)),
                members=draw(st.frozensets(names.map(UserName), max_size=3)),
            )
        )
    return Pool(
        projects=tuple(found),
        users=tuple(User(UserName(n), draw(amounts)) for n in draw(st.lists(names, max_size=3, unique=True))),
        groups=tuple(UserGroup(GroupName(n), draw(amounts)) for n in draw(st.lists(names, max_size=3, unique=True))),
        default_build_quota=draw(amounts),
    )


@given(pools())
def test_there_and_back_changes_nothing(pool: Pool) -> None:
    assert pool_of(parse(dump(file_of(pool))), pool, now=5e9) == pool


@pytest.mark.parametrize(
    ("entry", "field", "sentence"),
    [
        ({"name": "b", "guaranteed": 4, "limit": 2}, "limit", "limit: project 'b' has a limit of 2, below its"),
        ({"name": "b", "parent": "c"}, "parent", "parent: there is no project 'c'"),
        ({"name": "c", "guaranteed": 0.0005}, "guaranteed", "guaranteed goes in steps of 0.001"),
    ],
)
def test_an_error_of_one_project_does_not_name_a_place_in_a_file(
    entry: dict[str, Any], field: str, sentence: str
) -> None:
    with pytest.raises(Invalid) as refused:
        with_project(read("projects: [{name: a}, {name: b}]"), ProjectEntry.model_validate(entry), now=200.0)
    assert refused.value.field == field
    assert refused.value.sentence.startswith(sentence)


def test_a_written_pool_file_has_no_default_values() -> None:
    pool = read(
        """
        projects:
          - name: a
            policy: {maxima: {gpus: 2}}
            quotas: [{gpu_type: H100, guaranteed: 1}]
          - {name: b, guaranteed: null}
        keep_days: null
        """
    )
    text = dump(file_of(pool))
    nulls = [line.strip() for line in text.splitlines() if "null" in line]
    assert nulls == ["guaranteed: null", "keep_days: null"], "they say without bound, and for ever"
    assert pool_of(parse(text), pool, now=100.0) == pool


def test_a_single_project_is_added_and_removed() -> None:
    pool = read("projects: [{name: a, members: [x]}, {name: b}]")
    changed = with_project(pool, ProjectEntry(name="a", guaranteed=2), now=200.0)
    assert changed.projects[0] == Project(ProjectName("a"), guaranteed=2000, created=100)
    added = with_project(pool, ProjectEntry(name="c", parent="a"), now=200.0)
    assert added.projects[2] == Project(ProjectName("c"), ProjectName("a"), created=200)
    assert without_project(pool, "a", now=200.0).projects == pool.projects[1:]
    with pytest.raises(Invalid, match=r"has projects below it \(c\)"):
        without_project(added, "a", now=300.0)
    with pytest.raises(Invalid, match="the only project"):
        without_project(Pool(), "default", now=0.0)
