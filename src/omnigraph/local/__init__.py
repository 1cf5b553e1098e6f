"""The service over a store in this process: the handlers of each request of `api`."""
