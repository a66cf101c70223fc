"""What GPUs there are and how busy they are."""

from scheduler.telemetry.inventory import GpuUsage, Inventory
from scheduler.telemetry.local import LocalInventory
from scheduler.telemetry.machine_gpus import DECLARED

__all__ = ["DECLARED", "GpuUsage", "Inventory", "LocalInventory"]
