"""What GPUs there are and how busy they are."""

from scheduler.telemetry.inventory import DECLARED, GpuUsage, Inventory
from scheduler.telemetry.opening import open_inventory

__all__ = ["DECLARED", "GpuUsage", "Inventory", "open_inventory"]
