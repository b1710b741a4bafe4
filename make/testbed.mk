# The test bed: programs, images and the three clusters. See e2e/testbed/bed.yaml.
TESTBED = PYTHONPATH=. $(PYTHON) -m e2e.testbed

programs: ## Build the Kubernetes programs into the cache (20 minutes once, then at once)
	@e2e/testbed/build-programs.sh

dockerd: venv ## Start the docker daemon where none runs (needs root)
	@$(TESTBED) dockerd

images: venv programs ## Build geotrain's images where their inputs changed
	@$(TESTBED) images

clusters: venv programs ## Bring up the three clusters, or repair them (under 3 minutes once all is built)
	@$(TESTBED) up

load-images: images clusters ## Put geotrain's images into the clusters' nodes
	@$(TESTBED) load

clusters-status: venv ## Show the clusters and what runs beside them
	@$(TESTBED) status

clusters-down: venv ## Remove the clusters; the cache stays
	@$(TESTBED) down

.PHONY: programs dockerd images clusters load-images clusters-status clusters-down
