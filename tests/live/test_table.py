"""Every key of the pool file, option of a submission and setting of the service, with the test of its effect.

That test uses the running service: HTTP, the magic, the command line or a process started with the setting. A new key
needs a row, and a row needs an existing test that mentions the key and uses a running service.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel

from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.schema import ArraySubmit, PoolFile, SessionOpen
from scheduler.service.app import RunaiService
from scheduler.submission.options import BY_NAME

PROJECTS = "live/test_projects.py::test_"
RULES = "live/test_rules.py::test_"
SETTINGS = "live/test_settings.py::test_"
SUBMISSION = "live/test_submission.py::test_"
PROGRAMS = "live/test_programs.py::test_"
SERVICE = "app/test_settings.py::test_"
MAGIC = "jupyter_ext/test_magic.py::test_"

MAXIMUM = RULES + "no_job_asks_for_more_than_a_maximum"
ALLOWED = RULES + "a_job_chooses_among_the_allowed_values"
FILLS = RULES + "a_default_of_cpus_or_memory_fills_a_node"
WHERE = RULES + "default_gpu_types_and_node_pools_restrict_a_job"
INHERITED = RULES + "the_policy_of_a_project_counts_for_it_and_for_those_below_it"
BESIDE = PROJECTS + "guaranteed_cpus_and_memory_are_reclaimed"
LIMIT_BESIDE = PROJECTS + "a_limit_of_cpus_or_memory_bounds_a_project_and_all_below_its_parent"
MEMBERS = PROJECTS + "members_and_groups_decide_whose_jobs_a_project_takes"
QUOTA = PROJECTS + "a_quota_guarantees_gpus_of_a_node_pool_or_of_a_type"
ENVIRONMENT = PROJECTS + "a_node_pool_serves_the_environment_that_it_is_for"
QUOTAS = PROJECTS + "a_user_of_a_name_has_a_build_quota_and_the_others_the_default"
LINE = "api/test_http.py::test_a_server_waits_in_line_for_gpus"
GROUP_QUOTAS = PROJECTS + "a_user_of_groups_has_the_largest_of_their_build_quotas"
ORDER = SETTINGS + "in_the_order_served_the_lightest_user_is_next"
SERVED = SETTINGS + "in_the_order_served_the_least_served_job_is_next"
RECENT_USE = SETTINGS + "with_time_aware_recent_users_come_later"
NAMED = SUBMISSION + "a_job_has_its_name_its_project_and_its_kind"
GANG = SUBMISSION + "a_gang_of_groups"
SESSION = SUBMISSION + "a_session_is_of_a_user_and_a_server_and_has_its_gpus"
FILES = PROGRAMS + "its_working_directory_is_its_bundle_and_its_files"
GIT = "app/test_git_state.py::test_the_commit_of_the_folder_goes_with_a_job"
CELL = "e2e/test_train_cell.py::test_a_job_leads_back_to_its_cell"
COMMAND = PROGRAMS + "its_command_runs_with_its_env_and_its_parameters"
ARRAY = "api/test_http.py::test_an_array_is_stored_completely_or_not_at_all"
TEMPLATE = MAGIC + "a_template_is_overridden_by_the_line"
SEARCH = "jupyter_ext/test_search.py::test_trials_are_chosen_reported_and_pruned_and_the_best_result_is_available"

IDLE = "api/test_server_stops.py::test_an_idle_server_is_warned_and_stopped_after_the_grace"
STOPS = "api/test_server_stops.py::test_"
IDLE_EXCEPTIONS = STOPS + "a_user_or_a_group_may_have_other_idle_rules"
DECLARED_LOAD = (
    "api/test_declared_load.py::test_declared_gpus_are_shown_with_their_declared_load_and_prometheus_does_not_have_it"
)
LONGEST = "api/test_server_stops.py::test_a_server_is_stopped_at_the_longest_duration_although_it_is_used"

WINDOWS = "live/test_windows.py::test_"
IN_FORCE = WINDOWS + "a_window_guarantees_gpus_from_its_start_to_its_end"

POOL_FILE = {
    "PoolFile.node_pools": ENVIRONMENT,
    "PoolFile.projects": MEMBERS,
    "PoolFile.users": QUOTAS,
    "PoolFile.groups": GROUP_QUOTAS,
    "UserGroupEntry.name": GROUP_QUOTAS,
    "UserGroupEntry.build_quota": GROUP_QUOTAS,
    "PoolFile.default_build_quota": QUOTAS,
    "PoolFile.build_overcommit": PROJECTS + "more_build_gpus_than_there_are_are_promised_only_with_build_overcommit",
    "PoolFile.keep_days": PROJECTS + "ended_jobs_are_deleted_after_keep_days",
    "PoolFile.max_jobs_per_user": "api/test_http.py::test_a_users_unfinished_jobs_are_limited",
    "PoolFile.max_upload_gib_per_user": "api/test_bundles.py::test_a_users_uploads_are_limited",
    "PoolFile.policy": MAXIMUM,
    "PoolFile.drained": PROJECTS + "a_drained_node_keeps_its_jobs_and_gets_no_others",
    "PoolFile.moved": PROJECTS + "a_moved_node_keeps_its_jobs_and_serves_its_new_node_pool",
    "PoolFile.topology": PROJECTS + "topology_names_the_levels_that_a_job_may_require",
    "PoolFile.settings": SETTINGS + "lending_gives_idle_build_gpus_to_preemptible_jobs",
    "NodePoolEntry.name": ENVIRONMENT,
    "NodePoolEntry.environment": ENVIRONMENT,
    "NodePoolEntry.placement": PROJECTS + "a_node_pool_packs_jobs_or_spreads_them",
    "NodePoolEntry.gpus": SERVICE + "node_pools_share_the_gpus_of_a_machine",
    "ProjectEntry.name": MEMBERS,
    "ProjectEntry.parent": PROJECTS + "a_limit_bounds_a_project_and_all_below_its_parent",
    "ProjectEntry.guaranteed": PROJECTS + "guaranteed_gpus_are_reclaimed",
    "ProjectEntry.limit": PROJECTS + "a_limit_bounds_a_project_and_all_below_its_parent",
    "ProjectEntry.weight": PROJECTS + "the_surplus_is_divided_by_weight",
    "ProjectEntry.priority": PROJECTS + "the_surplus_goes_to_the_project_of_higher_priority",
    "ProjectEntry.members": MEMBERS,
    "ProjectEntry.groups": MEMBERS,
    "ProjectEntry.policy": INHERITED,
    "ProjectEntry.quotas": QUOTA,
    "ProjectEntry.order": ORDER,
    "ProjectEntry.guaranteed_cpus": BESIDE,
    "ProjectEntry.guaranteed_memory_gib": BESIDE,
    "ProjectEntry.limit_cpus": LIMIT_BESIDE,
    "ProjectEntry.limit_memory_gib": LIMIT_BESIDE,
    "ProjectEntry.windows": IN_FORCE,
    **dict.fromkeys([f"WindowEntry.{key}" for key in ("from", "to", "timezone", "guaranteed")], IN_FORCE),
    **dict.fromkeys([f"WindowEntry.{key}" for key in ("days", "first", "last")], WINDOWS + "days_and_dates_say_when"),
    "QuotaEntry.node_pool": QUOTA,
    "QuotaEntry.gpu_type": QUOTA,
    "QuotaEntry.guaranteed": QUOTA,
    "QuotaEntry.limit": PROJECTS + "a_quota_limits_a_project_in_a_node_pool_or_on_a_type",
    "UserEntry.name": QUOTAS,
    "UserEntry.build_quota": QUOTAS,
    "SettingsEntry.reclaim": SETTINGS + "reclaim_up_to_the_fair_share_or_the_guarantee",
    "SettingsEntry.reservations": SETTINGS + "reservations_keep_small_jobs_from_starving_a_gang",
    "SettingsEntry.preemption_delay": SETTINGS + "a_preemption_delay_gives_others_time",
    "SettingsEntry.time_aware": RECENT_USE,
    "SettingsEntry.usage_half_life": RECENT_USE,
    "SettingsEntry.surplus": "live/test_pauses.py::test_the_surplus_goes_by_weight_or_to_the_least_served",
    "SettingsEntry.lending": SETTINGS + "lending_gives_idle_build_gpus_to_preemptible_jobs",
    "SettingsEntry.resize_interval": SETTINGS + "an_elastic_job_grows_after_its_resize_interval",
    "SettingsEntry.order": ORDER,
    "SettingsEntry.service_levels": SERVED,
    "SettingsEntry.patience": SERVED,
    "SettingsEntry.session_max_duration": LONGEST,
    "SettingsEntry.declared_load": DECLARED_LOAD,
    **dict.fromkeys(
        [f"DeclaredLoadEntry.{key}" for key in ("use", "memory_gib", "used_memory_gib", "power_watts", "temperature")],
        DECLARED_LOAD,
    ),
    "SettingsEntry.session_idle_lend": STOPS + "an_idle_session_lends_its_gpus_and_has_them_back_as_soon_as_it_is_used",
    "SettingsEntry.session_idle_action": STOPS + "gpus_are_taken_back_once_the_server_has_released_them",
    "SettingsEntry.session_idle_exceptions": IDLE_EXCEPTIONS,
    **dict.fromkeys(
        [f"IdleExceptionEntry.{key}" for key in ("users", "groups", "timeout", "grace", "lend", "action")],
        IDLE_EXCEPTIONS,
    ),
    **dict.fromkeys([f"SettingsEntry.session_idle_{key}" for key in ("timeout", "grace")], IDLE),
    "PolicyEntry.defaults": INHERITED,
    "PolicyEntry.maxima": INHERITED,
    "PolicyEntry.allowed": INHERITED,
    "DefaultsEntry.gpus": RULES + "a_job_that_says_nothing_gets_the_default_gpus",
    "DefaultsEntry.cpus": FILLS,
    "DefaultsEntry.memory_gib": FILLS,
    "DefaultsEntry.priority": RULES + "the_default_priority_comes_before_a_lower_one",
    "DefaultsEntry.preemptible": RULES + "the_default_of_preemptible_bounds_jobs_by_the_guarantee",
    "DefaultsEntry.min_runtime": RULES + "a_default_min_runtime_protects_from_reclaim",
    "DefaultsEntry.max_runtime": RULES + "a_default_max_runtime_ends_a_job",
    "DefaultsEntry.idle_timeout": RULES + "a_default_idle_timeout_ends_a_job_whose_gpus_stand_idle",
    "DefaultsEntry.grace": RULES + "the_default_grace_applies_to_a_stop",
    "DefaultsEntry.retries": RULES + "the_default_retries_are_tried",
    "DefaultsEntry.gpu_types": WHERE,
    "DefaultsEntry.node_pools": WHERE,
    "MaximaEntry.gpus": MAXIMUM,
    "MaximaEntry.cpus": MAXIMUM,
    "MaximaEntry.memory_gib": MAXIMUM,
    "MaximaEntry.total_gpus": MAXIMUM,
    "MaximaEntry.workers": MAXIMUM,
    "MaximaEntry.priority": MAXIMUM,
    "MaximaEntry.min_runtime": MAXIMUM,
    "MaximaEntry.max_runtime": MAXIMUM,
    "MaximaEntry.idle_timeout": MAXIMUM,
    "MaximaEntry.grace": MAXIMUM,
    "MaximaEntry.retries": MAXIMUM,
    "AllowedEntry.gpu_types": ALLOWED,
    "AllowedEntry.node_pools": ALLOWED,
    "AllowedEntry.preemptible": ALLOWED,
}

SUBMITTED = {
    "JobSubmit.name": NAMED,
    "JobSubmit.project": NAMED,
    "JobSubmit.kind": NAMED,
    "JobSubmit.command": COMMAND,
    "JobSubmit.bundle": FILES,
    "JobSubmit.files": FILES,
    "JobSubmit.env": COMMAND,
    "JobSubmit.outputs": MAGIC + "a_cell_trains_on_the_pool_and_brings_its_model_back",
    "JobSubmit.gpus": SUBMISSION + "each_worker_gets_its_gpus",
    "JobSubmit.gpu_memory_gib": SUBMISSION + "gpu_memory_gib_is_a_part_of_one_gpu",
    "JobSubmit.gpu_types": SUBMISSION + "gpu_types_and_node_pools_restrict_a_job",
    "JobSubmit.cpus": SUBMISSION + "cpus_and_memory_gib_fill_a_node",
    "JobSubmit.memory_gib": SUBMISSION + "cpus_and_memory_gib_fill_a_node",
    "JobSubmit.workers": SUBMISSION + "each_worker_gets_its_gpus",
    "JobSubmit.min_workers": SUBMISSION + "with_min_workers_it_begins_with_fewer",
    "JobSubmit.framework": PROGRAMS + "workers_find_each_other_as_their_framework_has_it",
    "JobSubmit.image": "kubernetes/test_service.py::test_a_job_runs_in_the_image_that_it_names",
    "JobSubmit.groups": GANG,
    "JobSubmit.node_pools": SUBMISSION + "gpu_types_and_node_pools_restrict_a_job",
    "JobSubmit.priority": SUBMISSION + "the_higher_priority_starts_first",
    "JobSubmit.preemptible": SUBMISSION + "a_job_that_is_not_preemptible_keeps_its_gpus",
    "JobSubmit.require": SUBMISSION + "a_level_is_a_rule_with_require_and_a_wish_with_prefer",
    "JobSubmit.prefer": SUBMISSION + "a_level_is_a_rule_with_require_and_a_wish_with_prefer",
    "JobSubmit.min_runtime": SUBMISSION + "min_runtime_protects_from_preemption",
    "JobSubmit.max_runtime": SUBMISSION + "max_runtime_ends_it",
    "JobSubmit.idle_timeout": SUBMISSION + "idle_timeout_ends_it_when_its_gpus_stand_idle",
    "JobSubmit.expected_runtime": SUBMISSION + "expected_runtime_tells_others_when_they_start",
    "JobSubmit.grace": SUBMISSION + "its_grace_is_given_to_it",
    "JobSubmit.retries": SUBMISSION + "retries_are_tried_again",
    "JobSubmit.after": SUBMISSION + "after_another_job",
    "JobSubmit.parameters": COMMAND,
    "JobSubmit.git": GIT,
    "JobSubmit.cell": CELL,
    "JobSubmit.may_submit": SUBMISSION + "with_may_submit_it_has_a_token_for_the_jobs_that_it_submits",
    "NotebookCellSubmit.notebook": CELL,
    "NotebookCellSubmit.id": CELL,
    "GitSubmit.commit": GIT,
    "GitSubmit.branch": GIT,
    "GitSubmit.changed": GIT,
    "FileSubmit.path": FILES,
    "FileSubmit.blobs": FILES,
    "FileSubmit.executable": FILES,
    "GroupSubmit.name": GANG,
    "GroupSubmit.workers": GANG,
    "GroupSubmit.gpus": GANG,
    "GroupSubmit.gpu_memory_gib": GANG,
    "GroupSubmit.cpus": GANG,
    "GroupSubmit.memory_gib": GANG,
    "GroupSubmit.leader": GANG,
    "ArraySubmit.job": ARRAY,
    "ArraySubmit.members": ARRAY,
    "ArraySubmit.max_parallel": SUBMISSION + "max_parallel_bounds_the_jobs_of_an_array",
    "ArraySubmit.at_once": "api/test_http.py::test_max_parallel_limits_the_running_jobs_of_an_array",
    "ArrayMember.index": ARRAY,
    "ArrayMember.command": ARRAY,
    "ArrayMember.parameters": ARRAY,
    "SessionOpen.user": SESSION,
    "SessionOpen.server": SESSION,
    "SessionOpen.gpus": SESSION,
    "SessionOpen.gpu_memory_gib": SESSION,
    "SessionOpen.groups": GROUP_QUOTAS,
    "SessionOpen.wait": LINE,
    "SessionOpen.since": LINE,
}

OPTIONS = {
    "in": MAGIC + "in_chooses_variables_and_files",
    "no_files": "app/test_service.py::test_jobs_are_paused_resumed_and_cancelled",
    "no_capture": MAGIC + "with_no_capture_a_cell_gets_no_variables",
    "notebook_parameters": "jupyter_ext/test_notebook_jobs.py::"
    "test_a_notebook_runs_with_its_parameters_and_comes_back_with_its_outputs",
    "array": MAGIC + "jobs_of_an_array_have_indices_and_can_be_a_dependency",
    "sweep": MAGIC + "a_sweep_gives_each_job_its_values_and_the_best_ones_result",
    "max_parallel": SUBMISSION + "max_parallel_bounds_the_jobs_of_an_array",
    "schedule": MAGIC + "a_cell_is_scheduled_and_running_it_again_changes_its_schedule",
    "timezone": MAGIC + "a_cell_is_scheduled_and_running_it_again_changes_its_schedule",
    "search": SEARCH,
    "trials": SEARCH,
    "minimize": SEARCH,
    "maximize": "jupyter_ext/test_search.py::test_a_search_goes_on_without_a_kernel",
    "file": "app/test_service.py::test_a_gang_of_groups_from_a_job_file",
    "template": TEMPLATE,
    "save_template": TEMPLATE,
    "dry_run": MAGIC + "what_a_dry_run_prints_can_be_sent",
    "detach": MAGIC + "detached_it_returns_the_job_at_once",
    "wait": "app/test_service.py::test_a_job_that_fails_while_it_is_waited_for_gives_status_1",
    "bring_to": "app/test_service.py::test_a_script_is_sent_followed_and_its_outputs_come_back",
    "output": "app/test_service.py::test_projects_and_the_pool_file_over_the_command_line",
}
"""Options that are not keys of the API's submission, which are above."""

SERVICE_SETTINGS = {
    "state_dir": SERVICE + "state_dir_holds_all_state",
    "ip": SERVICE + "ip_port_and_base_url_say_where_it_answers",
    "port": SERVICE + "ip_port_and_base_url_say_where_it_answers",
    "base_url": SERVICE + "ip_port_and_base_url_say_where_it_answers",
    "db_url": SERVICE + "db_url_names_the_database",
    "declared_gpus": SERVICE + "the_pool_has_the_declared_gpus",
    "pool_file": SERVICE + "node_pools_share_the_gpus_of_a_machine",
    "auth": SERVICE + "auth_by_the_state_folders_token_or_by_a_hub",
    "jobs_as": SERVICE + "jobs_as_owner_needs_root_and_a_folder_that_owners_can_access",
    "gpu_isolation": "app/test_gpu_isolation.py::test_gpu_isolation_chooses_what_is_in_force",
    "engine": SERVICE + "the_engine_is_one_that_is_installed",
    "scrape_token": SERVICE + "the_scrape_token_reads_the_metrics_and_nothing_else",
    "dcgm_mapping_dir": "app/test_telemetry.py::test_dcgm_mapping_dir_has_the_jobs_of_each_gpu",
    "standby": "app/test_standby.py::test_a_standby_is_alive_not_ready_and_names_the_leader",
    "operator": "kubernetes/test_operator.py::test_a_trainjob_becomes_a_job_of_the_user_of_its_namespace",
    "idle_timeout": SERVICE + "after_idle_timeout_it_ends",
    **dict.fromkeys(
        ("smtp_host", "smtp_port", "smtp_tls", "smtp_user", "smtp_password", "smtp_from"),
        "app/test_notices.py::test_e_mail_goes_through_the_administrators_server",
    ),
    "webhook_hosts": "app/test_notices.py::test_a_webhook_tells_the_ends_of_jobs_and_no_log_has_its_secret",
}

CLUSTER = "kubernetes/test_service.py::test_the_settings_say_which_cluster_which_nodes_and_what_pods_are_like"

KUBERNETES_SETTINGS = dict.fromkeys(
    (
        *("kubeconfig", "context", "namespace", "instance", "url", "image", "gpu_resource", "topology_labels"),
        *("tolerations", "pod_template", "upload_seconds"),
    ),
    CLUSTER,
) | {
    "gpu_parts": "kubernetes/test_gpu_parts.py::test_jobs_share_a_gpu_as_the_device_plugin_divides_it",
    "gpu_memory_limits": "kubernetes/test_gpu_parts.py::"
    "test_gpu_memory_limits_tell_the_container_toolkit_what_a_job_may_use",
    "autoscaling_pods": "kubernetes/test_autoscaling.py::"
    "test_pods_show_what_the_jobs_first_in_line_lack_until_nodes_are_there",
    "checkpoint_volume": "kubernetes/test_service.py::"
    "test_checkpoint_volume_keeps_the_checkpoints_of_each_job_and_only_their_time_is_uploaded",
    "node_agent": "kubernetes/test_installed.py::test_its_node_agent_reports_whose_processes_use_which_gpus",
    **dict.fromkeys(
        ("placement", "queues"),
        "kubernetes/test_delegation.py::test_kueue_admits_jobs_and_what_it_preempts_resumes_from_its_checkpoint",
    ),
    "start_seconds": "kubernetes/test_service.py::test_a_pod_that_does_not_start_in_time_gives_its_gpus_back",
    **dict.fromkeys(
        ("webhook_certificate", "webhook_port"),
        "kubernetes/test_webhook.py::test_kubectl_apply_refuses_what_the_scheduler_would_refuse",
    ),
    "lease_seconds": "kubernetes/test_replicas.py::test_lease_seconds_say_how_long_a_silent_leader_is_waited_for",
    "notebook_volumes": "kubernetes/test_service.py::"
    "test_a_job_runs_in_the_image_of_its_notebook_with_the_volumes_that_any_node_can_mount",
    "notebooks_namespace": "kubernetes/test_notebooks.py::test_a_cell_of_a_pod_runs_in_another_pod",
}

RUNNING = {"hub", "installed", "kernel", "open_pool", "pool", "service", "shared"}
"""The fixtures that are a running service, or use one."""

ROWS = {
    **{key: (key.partition(".")[2], test) for key, test in {**POOL_FILE, **SUBMITTED}.items()},
    **{f"option {key}": (key, test) for key, test in OPTIONS.items()},
    **{f"setting {key}": (key, test) for key, test in SERVICE_SETTINGS.items()},
    **{f"Kubernetes {key}": (key, test) for key, test in KUBERNETES_SETTINGS.items()},
}


def keys_of(*kinds: type[BaseModel]) -> Iterator[str]:
    """The keys of types, and of their nested types."""
    seen: set[type[BaseModel]] = set()
    left: list[object] = list(kinds)
    while left:
        kind = left.pop()
        left.extend(get_args(kind))
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
            seen.add(kind)
            for name, field in kind.model_fields.items():
                yield f"{kind.__name__}.{field.alias or name}"
                left.append(field.annotation)


def test_every_key_of_the_pool_file_has_a_row() -> None:
    assert sorted(POOL_FILE) == sorted(keys_of(PoolFile))


def test_every_key_of_a_submission_has_a_row() -> None:
    assert sorted(SUBMITTED) == sorted(keys_of(ArraySubmit, SessionOpen))


def test_every_option_has_a_row() -> None:
    submitted = {key.partition(".")[2] for key in SUBMITTED if key.startswith("JobSubmit.")}
    assert sorted(OPTIONS) == sorted(BY_NAME.keys() - submitted)


def test_every_setting_has_a_row() -> None:
    own = RunaiService.class_own_traits(config=True)
    assert sorted(SERVICE_SETTINGS) == sorted(own)
    assert sorted(KUBERNETES_SETTINGS) == sorted(Kubernetes.class_own_traits(config=True))


@pytest.mark.parametrize("row", ROWS)
def test_its_test_is_there_mentions_it_and_goes_through_the_running_service(row: str) -> None:
    key, test = ROWS[row]
    file, _, name = test.partition("::")
    function = getattr(importlib.import_module("tests." + file.removesuffix(".py").replace("/", ".")), name)
    assert RUNNING & inspect.signature(function).parameters.keys(), f"{test} uses no running service"
    said = inspect.getsource(function)
    words = {
        key,
        *(BY_NAME[key].flags + BY_NAME[key].former if key in BY_NAME else ()),
        f"--{key.replace('_', '-')}",
    }
    assert any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", said) for word in words), (
        f"{test} does not mention {key}"
    )
