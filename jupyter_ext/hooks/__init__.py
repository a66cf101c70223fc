"""One-line hooks for training loops that resume: PyTorch, Keras, Hugging Face's `Trainer`, scikit-learn.

Only the module of a framework imports it. All of them restore the state of an earlier attempt at the start; when the
scheduler reclaims the GPUs, the state is saved and the worker ends. Outside a job they only train.
"""
