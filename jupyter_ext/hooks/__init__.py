"""One line each for training loops that go on where they were: PyTorch, Keras, Hugging Face's `Trainer`, scikit-learn.

Each module imports its framework, and nothing else does. What they have in common: what an earlier attempt saved is
restored at the start; when the scheduler wants the GPUs back the state is saved and the worker ends. Outside a job they
only train.
"""
