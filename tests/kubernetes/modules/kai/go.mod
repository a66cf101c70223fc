module jupyter-runai/tests/kai

go 1.26

require github.com/NVIDIA/KAI-scheduler v0.12.0
