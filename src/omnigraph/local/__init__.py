"""The service over a store in this process: each request of `api` answered by the packages below."""
